"""Compile options are asked for: what this XLA refuses is never passed on, and nothing is asked
twice or too early."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hmnn.core.cpu import compilation

KNOWN = {"xla_backend_optimization_level": 1}
"""An option that every XLA has had for years."""
UNKNOWN = {"xla_cpu_of_another_release": True}
REFUSED = {"xla_backend_optimization_level": "high"}


@pytest.fixture
def asked(monkeypatch):
    """What XLA is asked, in a process that has asked nothing yet."""
    real, heard = compilation._accepts, []

    def accepts(wished):
        heard.append(dict(wished))
        return real(wished)

    monkeypatch.setattr(compilation, "_answers", {})
    monkeypatch.setattr(compilation, "_accepts", accepts)
    return heard


@pytest.fixture
def passed_on(monkeypatch):
    """The compile options that `jax.jit` is given."""
    real, given = jax.jit, []

    def jit(function, **settings):
        if "compiler_options" in settings:
            given.append(settings["compiler_options"])
        return real(function, **settings)

    monkeypatch.setattr(jax, "jit", jit)
    return given


def test_xla_itself_refuses_what_we_call_refused():
    """The negative control: were it passed on, the call would fail."""
    for wrong in (UNKNOWN, REFUSED):
        with pytest.raises(RuntimeError):
            jax.jit(lambda x: x + 1, compiler_options=wrong)(1.0)
    assert jax.jit(lambda x: x + 1, compiler_options=KNOWN)(1.0) == 2


@pytest.mark.parametrize("wrong", [UNKNOWN, REFUSED], ids=str)
def test_what_is_refused_is_dropped_and_the_rest_is_kept(wrong, asked):
    assert compilation.options(wrong) == {}
    kept = {"xla_cpu_enable_fast_math": False}
    assert compilation.options(kept | wrong) == kept


def test_known_options_are_kept_in_one_question(asked):
    wished = {**KNOWN, "xla_cpu_enable_fast_math": False}
    assert compilation.options(wished) == wished
    assert asked == [wished]


def test_nothing_is_asked_twice(asked):
    first = [compilation.options(KNOWN | UNKNOWN) for _ in range(2)]
    assert first == [KNOWN, KNOWN]
    assert asked == [KNOWN | UNKNOWN, KNOWN, UNKNOWN]
    compilation.options(KNOWN)
    assert len(asked) == 3


def test_what_is_refused_is_not_passed_on(asked, passed_on):
    plus = compilation.compiled(KNOWN | UNKNOWN)(lambda x: x + 1)
    assert plus(1.0) == 2
    assert passed_on == [KNOWN]


def test_where_nothing_is_left_jax_is_asked_for_nothing_special(asked, passed_on):
    plus = compilation.compiled(UNKNOWN)(lambda x: x + 1)
    assert plus(1.0) == 2
    assert passed_on == [None]


def test_on_another_backend_nothing_is_asked_or_given(asked, passed_on, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert compilation.options(compilation.OFTEN) == {}
    assert compilation.compiled(compilation.OFTEN)(lambda x: x + 1)(1.0) == 2
    assert asked == []
    assert passed_on == [None]


@pytest.mark.parametrize(
    "wished",
    [compilation.OFTEN, compilation.SELDOM, compilation.ONCE],
    ids=["often", "seldom", "once"],
)
def test_our_own_options_are_asked_for_and_some_are_taken(wished, asked):
    taken = compilation.options(wished)
    assert taken.items() <= dict(wished).items()
    assert "xla_backend_optimization_level" in taken
    assert compilation.compiled(wished)(lambda x: jnp.sin(x) * 2)(jnp.zeros(8)).sum() == 0


def test_a_compiled_function_is_asked_for_at_its_first_call(asked):
    @compilation.compiled(KNOWN, static_argnums=0, donate_argnums=1)
    def scaled(factor, x):
        """Times a factor."""
        traced.append(factor)
        return factor * x

    traced = []
    assert scaled.__doc__ == "Times a factor."
    assert scaled.__name__ == "scaled"
    assert asked == []
    for factor in (2, 2, 3):
        x = jnp.ones(4)
        np.testing.assert_array_equal(scaled(factor, x), factor * np.ones(4))
        assert x.is_deleted()
    assert traced == [2, 3]
    assert asked == [KNOWN]
    assert "multiply" in scaled.jitted.lower(5, jnp.ones(4)).compile().as_text()


def test_a_call_adds_no_frame_of_ours():
    def depth():
        frame, count = sys._getframe(), 0
        while frame is not None:
            frame, count = frame.f_back, count + 1
        return count

    depths = []

    def function(x):
        depths.append(depth())
        return x

    wrapped = compilation.compiled(KNOWN)(function)
    for run in (wrapped.jitted, wrapped):
        wrapped.jitted.clear_cache()
        run(1.0)
    assert depths[0] == depths[1]


IMPORT = """
import jax
asked = []
listen = jax.monitoring.register_event_duration_secs_listener
listen(lambda event, seconds, **_: asked.append(event))
import hmnn.core.cpu.compilation
before = len(asked)
hmnn.core.cpu.compilation.options(hmnn.core.cpu.compilation.OFTEN)
print(before, len(asked) > 0)
"""


def test_an_import_compiles_nothing():
    done = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True)
    assert done.stdout == "0 True\n", done.stderr
