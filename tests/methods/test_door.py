"""D3: what is out of domain is refused before anything compiles, by a sentence with name, domain
and value."""

import inspect
import re
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import hmnn
from hmnn import Dataset, _check
from hmnn._types import Batch
from hmnn.core import families, kernels, likelihoods, noise
from hmnn.core.families import WHERE, Family
from hmnn.core.filtering import Projection
from hmnn.core.kernels import Kernel
from hmnn.core.likelihoods import Likelihood
from hmnn.methods import method as programs
from hmnn.methods import padding

NETWORK = hmnn.mlp(2, (3, 3), 2)
SHAPES = jax.eval_shape(NETWORK.init, jax.random.key(0))
NAN, INF = float("nan"), float("inf")

UNIT = "in [0, 1]"
POSITIVE = "a positive number"
COUNT = "a whole number of at least 1"
CENTRE = "'zero', 'previous', a number or a tree shaped like the weights"
LIKE_WEIGHTS = "a number or a tree shaped like the weights"


@pytest.fixture(autouse=True)
def _nothing_compiles():
    compiled = [thing for thing in vars(programs).values() if hasattr(thing, "_cache_size")]
    assert {programs.init, programs.step, programs.laid_update, programs.predict} <= set(compiled)
    before = [function._cache_size() for function in compiled]
    yield
    assert [function._cache_size() for function in compiled] == before


def table(*rows):
    """(maker, keyword, allowed, bad values) spelt out, one case per value."""
    return [
        pytest.param(
            maker,
            name,
            value,
            allowed,
            id=f"{maker.__name__}-{name}-{re.sub(r' at 0x.*', '', str(value))[:24]}",
        )
        for maker, name, allowed, values in rows
        for value in values
    ]


def build_hmnn(**settings):
    return hmnn.hmnn(NETWORK, "categorical", **settings)


def build_bbp(**settings):
    return hmnn.bbp(NETWORK, "categorical", **settings)


def build_vcl(**settings):
    return hmnn.vcl(NETWORK, "categorical", **settings)


def build_kurle(**settings):
    return hmnn.kurle(NETWORK, "categorical", **settings)


def build_mlp(**settings):
    return hmnn.mlp(**{"inputs": 2, "hidden": (3,), "outputs": 2} | settings)


def build_linear(**settings):
    return hmnn.linear(**{"inputs": 2} | settings)


def build_cnn(**settings):
    return hmnn.cnn(**{"channels": 1, "side": 8, "outputs": 2} | settings)


def build_rnn(**settings):
    return hmnn.rnn(**{"inputs": 1, "width": 3, "outputs": 2} | settings)


NOT_NUMBERS = [
    "0.5",
    b"0.5",
    None,
    True,
    np.True_,
    [0.5],
    np.array([0.5]),
    [[1], [1, 2]],
    0.5j,
    {},
    NAN,
    INF,
    -INF,
]
NOT_UNIT = [-0.1, 1.3, *NOT_NUMBERS]
NOT_POSITIVE = [0, -1.0, 10**400, *NOT_NUMBERS]
NOT_COUNTS = [0, -1, 1.5, 2.0, "3", True, NAN, [3], np.float32(2)]

CASES = table(
    (build_hmnn, "memory", UNIT, NOT_UNIT),
    (build_hmnn, "jump_scale", POSITIVE, NOT_POSITIVE),
    (build_hmnn, "shrink", "greater than 1", [1, 0.5, -2, *NOT_NUMBERS]),
    (build_hmnn, "jump_prob", UNIT, NOT_UNIT),
    (build_hmnn, "centre", "one of 'zero', 'previous'", ["nowhere", ""]),
    (build_hmnn, "centre", "a finite number", [NAN, INF, True]),
    (build_hmnn, "centre", CENTRE, [None, {"a": 1.0}, [1.0, 2.0], np.zeros(3)]),
    (build_hmnn, "centre", "made of finite numbers", [object(), np.float32(NAN), 1j]),
    (build_bbp, "jump_scale", POSITIVE, [0, -1, NAN, "a"]),
    (build_bbp, "shrink", "greater than 1", [1, NAN, "a"]),
    (build_bbp, "jump_prob", UNIT, [2, NAN, "a"]),
    (build_kurle, "memory", UNIT, [1.3, NAN, "a"]),
    (build_kurle, "scale", POSITIVE, [0, -1, NAN, "a"]),
    (build_vcl, "keep", "in (0, 1]", [0, -0.5, 1.3, "0.5", NAN, True]),
    (build_vcl, "keep", LIKE_WEIGHTS, [None, {"a": 0.5}, [0.5, 0.5]]),
    (
        build_vcl,
        "keep_where",
        "one of " + ", ".join(repr(word) for word in WHERE),
        ["inside", None, 3],
    ),
    (build_vcl, "optimiser", "one of 'sgd', 'adam'", ["rmsprop", "SGD"]),
    (
        build_vcl,
        "optimiser",
        "a name or a function of the learning rate such as optax.adam",
        [optax.adam(1e-3), None, abs],
    ),
    (build_vcl, "learning_rate", POSITIVE, NOT_POSITIVE),
    (build_vcl, "epochs", COUNT, [None, *NOT_COUNTS]),
    (build_vcl, "minibatch", COUNT, NOT_COUNTS),
    (build_vcl, "samples", COUNT, [None, *NOT_COUNTS]),
    (build_vcl, "patience", COUNT, [None, *NOT_COUNTS]),
    (build_vcl, "kl_weights", "one of 'uniform', 'geometric'", ["even", None, 1]),
    (build_vcl, "temperature", "at least 0", [-0.1, *NOT_NUMBERS]),
    (build_vcl, "initial_scale", POSITIVE, NOT_POSITIVE),
    (
        build_vcl,
        "start_rho",
        "two numbers, the lower first",
        [
            (-2, -3),
            (NAN, 1),
            (-INF, 0),
            ("a", "b"),
            (1,),
            (1, 2, 3),
            -2.0,
            None,
            "ab",
            (None, None),
        ],
    ),
    (build_vcl, "restart", "True or False", ["no", 1, None]),
    (build_vcl, "source", "a function such as hmnn.core.noise.random", [None, "random", 3]),
    (build_mlp, "inputs", COUNT, NOT_COUNTS),
    (build_mlp, "outputs", COUNT, NOT_COUNTS),
    (build_mlp, "hidden", COUNT, [(0,), (3, "3"), (2.0,), [True]]),
    (build_mlp, "hidden", "a tuple of widths such as (400, 400)", [3, None, "3", {3}]),
    (build_mlp, "activation", "a function such as jax.nn.relu", ["relu", None, 3]),
    (build_linear, "inputs", COUNT, NOT_COUNTS),
    (build_linear, "outputs", COUNT, NOT_COUNTS),
    (build_linear, "bias", "True or False", ["no", 1, None]),
    (build_cnn, "channels", COUNT, NOT_COUNTS),
    (build_cnn, "side", "a whole number of at least 4", [0, 3, 8.0, "8"]),
    (build_cnn, "outputs", COUNT, NOT_COUNTS),
    (build_cnn, "width", COUNT, NOT_COUNTS),
    (build_rnn, "inputs", COUNT, NOT_COUNTS),
    (build_rnn, "width", COUNT, NOT_COUNTS),
    (build_rnn, "outputs", COUNT, NOT_COUNTS),
    (kernels.jump, "memory", UNIT, NOT_UNIT),
    (kernels.jump, "shrink", "greater than 1", [1, NAN, "a"]),
    (kernels.reset, "jump_scale", POSITIVE, NOT_POSITIVE),
    (kernels.ornstein_uhlenbeck, "memory", UNIT, NOT_UNIT),
    (kernels.ornstein_uhlenbeck, "scale", POSITIVE, NOT_POSITIVE),
    (likelihoods.gaussian, "scale", POSITIVE, NOT_POSITIVE),
    (likelihoods.learned_gaussian, "scale", POSITIVE, NOT_POSITIVE),
    (hmnn.descent, "learning_rate", POSITIVE, [0, NAN, "a"]),
    (hmnn.natural, "initial_scale", POSITIVE, NOT_POSITIVE),
    (hmnn.natural, "level_scale", "at least 0", [-0.1, *NOT_NUMBERS]),
    (hmnn.natural, "spread", UNIT, NOT_UNIT),
    (hmnn.natural, "joint", COUNT, NOT_COUNTS),
    (hmnn.laplace_projection, "initial_scale", POSITIVE, NOT_POSITIVE),
    (hmnn.laplace_projection, "iterations", COUNT, NOT_COUNTS),
)


def sentence_of(error, name: str, allowed: str) -> str:
    """The error's text, after asserting the one wording."""
    text = str(error.value)
    assert text.startswith(f"{name} must be {allowed}. Got "), text
    assert text.endswith(".")
    return text


@pytest.mark.parametrize(("maker", "name", "value", "allowed"), CASES)
def test_a_setting_out_of_domain_is_refused_with_name_domain_and_value(maker, name, value, allowed):
    with pytest.raises(ValueError, match="must be") as error:
        maker(**{name: value})
    text = sentence_of(error, name, allowed)
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        assert repr(value) in text


EDGES = {
    build_hmnn: [
        {"memory": 0},
        {"memory": 1},
        {"jump_prob": 0},
        {"jump_prob": 1.0},
        {"shrink": 1.0001},
        {"centre": 0},
        {"centre": np.float32(0.3)},
        {"centre": jax.tree.map(lambda w: jnp.ones(w.shape), SHAPES)},
        {"centre": jax.tree.map(lambda w: 0.5, SHAPES)},
        {"memory": np.float32(0.5), "jump_prob": jnp.float32(0.5)},
    ],
    build_vcl: [
        {"keep": 1},
        {"keep": 1e-6},
        {"keep": jax.tree.map(lambda w: 0.5, SHAPES)},
        {"keep_where": lambda path: "bias" in path},
        {"temperature": 0},
        {"minibatch": None},
        {"epochs": np.int64(3)},
        {"start_rho": [-3, -3]},
        {"optimiser": optax.rmsprop},
    ],
    build_mlp: [{"hidden": ()}, {"hidden": [3, 4]}],
    build_cnn: [{"side": 4}],
}


@pytest.mark.parametrize(
    ("maker", "settings"), [(maker, s) for maker, many in EDGES.items() for s in many]
)
def test_the_edges_of_the_domain_are_allowed(maker, settings):
    maker(**settings)


@pytest.mark.parametrize(
    ("maker", "name"),
    [
        (build_vcl, "learning_rate"),
        (build_hmnn, "jump_scale"),
        (build_vcl, "temperature"),
        (build_hmnn, "centre"),
    ],
)
def test_a_number_that_float32_would_make_infinite_is_refused(maker, name):
    with pytest.raises(
        ValueError, match=rf"^{name} must be .* and fit in float32\. Got 1e\+300\.$"
    ):
        maker(**{name: 1e300})
    maker(**{name: 1e30})


@pytest.mark.parametrize("name", ["epochs", "patience", "samples", "minibatch"])
def test_a_count_that_int32_cannot_hold_is_refused(name):
    with pytest.raises(ValueError, match=rf"^{name} must be .* and below 2\*\*31\. Got {2**40}\.$"):
        build_vcl(**{name: 2**40})


def test_trees_of_the_wrong_shape_are_refused_for_keep_and_centre():
    other = jax.eval_shape(hmnn.mlp(2, (3,), 2).init, jax.random.key(0))
    with pytest.raises(ValueError, match=r"^keep must be") as error:
        build_hmnn(keep=jax.tree.map(lambda w: 0.5, other))
    sentence_of(error, "keep", LIKE_WEIGHTS)
    with pytest.raises(ValueError, match=r"^centre must be") as error:
        build_hmnn(centre=jax.tree.map(lambda w: jnp.ones(w.shape), other))
    sentence_of(error, "centre", CENTRE)
    with pytest.raises(ValueError, match=r"^centre must be") as error:
        build_hmnn(centre=jax.tree.map(lambda w: jnp.ones(7), SHAPES))
    sentence_of(error, "centre", CENTRE)
    with pytest.raises(ValueError, match=r"^centre must be made of finite numbers"):
        build_hmnn(centre=jax.tree.map(lambda w: jnp.full(w.shape, jnp.nan), SHAPES))


@pytest.mark.parametrize(
    "value", ["normal", None, 3, likelihoods.gaussian, likelihoods.Categorical]
)
def test_what_is_no_likelihood_is_refused(value):
    with pytest.raises(
        ValueError, match=r"^likelihood must be (one of 'categorical', .*|a likelihood or the name)"
    ):
        hmnn.vcl(NETWORK, value)


@pytest.mark.parametrize("value", ["jump", None, 3, kernels.jump, kernels.Jump, abs])
def test_what_is_no_kernel_is_refused(value):
    said = r"^kernel must be a kernel \(see hmnn\.core\.kernels\)\. Got "
    with pytest.raises(ValueError, match=said):
        hmnn.build(NETWORK, "categorical", value)


NO_FAMILY = ["gaussian", 3, abs, hmnn.Gaussian, {"a": hmnn.Gaussian()}, [None] * 6]


@pytest.mark.parametrize("value", NO_FAMILY)
def test_what_is_no_family_is_refused(value):
    with pytest.raises(ValueError, match=r"^family must be a [Ff]amily .*\. Got "):
        hmnn.build(NETWORK, "categorical", kernels.static(), family=value)


@pytest.mark.parametrize("value", ["natural", 3, abs, hmnn.descent, type(hmnn.natural())])
def test_what_is_no_projection_is_refused(value):
    with pytest.raises(ValueError, match=r"^projection must be a projection \(see .*\)\. Got "):
        hmnn.build(NETWORK, "categorical", kernels.static(), projection=value)


def test_a_family_says_itself_what_is_dropped():
    families_ = jax.tree.map(lambda _: hmnn.DropConnect(0.5), SHAPES)
    for family in (hmnn.DropConnect(0.5), families_):
        method = hmnn.build(NETWORK, "categorical", kernels.static(), family=family)
        assert method.parts.family == families_
    with pytest.raises(ValueError, match=r"^keep must be 1 where a family is given.* Got 0\.5\.$"):
        hmnn.build(NETWORK, "categorical", kernels.static(), family=hmnn.Gaussian(), keep=0.5)


class Leaning:
    """A user's part: it asks another one, but for what is left out."""

    def __init__(self, part, without):
        self.part, self.without = part, without

    def __getattr__(self, name):
        if name == self.without:
            raise AttributeError(name)
        return getattr(self.part, name)


class LeaningKernel(Leaning):
    def __call__(self, mixture, centre):
        return self.part(mixture, centre)


PARTS = {
    "likelihood": (likelihoods.poisson(), Likelihood, Leaning),
    "kernel": (kernels.jump(), Kernel, LeaningKernel),
    "family": (hmnn.Gaussian(), Family, Leaning),
    "projection": (hmnn.natural(), Projection, Leaning),
}


def build_with(**parts):
    start = {"network": hmnn.mlp(2, (3,), 1), "likelihood": "gaussian", "kernel": kernels.jump()}
    return hmnn.build(**start | parts)


@pytest.mark.parametrize(
    ("kind", "word"),
    [(kind, w) for kind, (_, asked, _) in PARTS.items() for w in vars(asked) if w[0] != "_"],
)
def test_a_users_part_without_one_of_its_methods_is_refused_by_name(kind, word):
    part, _, leaning = PARTS[kind]
    with pytest.raises(ValueError, match=rf"^{kind} must be a NamedTuple, or a dataclass that jax"):
        build_with(**{kind: leaning(part, None)})  # whole, but nothing that JAX can take apart
    with pytest.raises(ValueError, match=rf"^{kind} must be a {kind} with .*\b{word}\b") as error:
        build_with(**{kind: leaning(part, word)})
    text = sentence_of(error, kind, str(error.value).split("must be ")[1].split(". Got")[0])
    assert text.endswith(f"Got '{leaning.__name__} without {word}'.")
    assert len(text.splitlines()) == 1


def test_a_users_kernel_that_cannot_be_called_or_has_no_real_centre_is_refused():
    with pytest.raises(ValueError, match=r"^kernel must be .*Got 'Leaning without __call__'\.$"):
        build_with(kernel=Leaning(kernels.jump(), None))
    wrong = kernels.jump()._replace(centre=0.0)
    with pytest.raises(ValueError, match=r"^centre must be a Centre \(see .*\)\. Got 0\.0\.$"):
        build_with(kernel=wrong)


DESCENT = {
    "optimiser": optax.rmsprop,
    "learning_rate": 0.25,
    "epochs": 3,
    "minibatch": 5,
    "samples": 7,
    "kl_weights": "geometric",
    "temperature": 0.75,
    "initial_scale": 0.125,
    "start_rho": (-5.0, -4.0),
    "restart": True,
    "patience": 9,
    "source": noise.random,
}
KERNELS = {
    build_hmnn: kernels.jump(0.75, 0.25, 3.0, 0.125, "zero"),
    build_bbp: kernels.reset(0.25, 3.0, 0.125),
    build_vcl: kernels.static(),
    build_kurle: kernels.ornstein_uhlenbeck(0.75, 0.25),
}


@pytest.mark.parametrize("maker", KERNELS, ids=lambda maker: maker.__name__)
def test_every_setting_of_a_method_reaches_its_part(maker):
    numbers = {k: v for k, v in KERNELS[maker]._asdict().items() if k != "centre"}
    numbers |= {"centre": "zero"} if maker is build_hmnn else {}
    method = maker(**DESCENT, **numbers, keep=0.5, keep_where="all")
    assert set(DESCENT) == set(inspect.signature(hmnn.descent).parameters)
    assert method.parts.projection == hmnn.descent(**DESCENT)
    assert method.parts.kernel == KERNELS[maker]
    assert method.parts.family == families.assign(SHAPES, 0.5, "all")
    usual, here = (vars(made.parts.projection) for made in (maker(), method))
    assert all(usual[name] != here[name] for name in DESCENT)  # each is a change


@pytest.mark.parametrize("value", ["mlp", None, 3, hmnn.mlp, (NETWORK.init, NETWORK.apply)])
def test_what_is_no_network_is_refused(value):
    with pytest.raises(
        ValueError, match=r"^network must be a Network \(see hmnn\.networks\)\. Got "
    ):
        hmnn.vcl(value, "categorical")


def test_an_unknown_keyword_is_refused():
    with pytest.raises(TypeError, match="momentum"):
        build_hmnn(momentum=0.9)
    with pytest.raises(TypeError, match="memory"):
        build_vcl(memory=0.5)


def test_the_wording_is_the_one_of_the_design():
    with pytest.raises(ValueError, match=r"^memory must be in \[0, 1\]\. Got 1\.3\.$"):
        build_hmnn(memory=1.3)


X = np.zeros((3, 2))
TOO_WIDE = "must fit in"
NUMBERS = "must be an array of numbers"


@pytest.mark.parametrize(
    ("data", "fragment"),
    [
        (Dataset(X + 1e300, [0, 1, 0]), f"x {TOO_WIDE} float32 at t = 5. Got 1e+300."),
        (Dataset(X - 1e300, [0, 1, 0]), f"x {TOO_WIDE} float32 at t = 5. Got -1e+300."),
        (Dataset(X, np.array([0, 1, 1e300])), f"y {TOO_WIDE} float32 at t = 5. Got 1e+300."),
        (Dataset(X, [0, 1, 2**31 + 5]), f"y {TOO_WIDE} int32 at t = 5. Got 2147483653."),
        (Dataset(X, [0, 1, -(2**31) - 5]), f"y {TOO_WIDE} int32 at t = 5. Got -2147483653."),
        (Dataset(X, np.array([0, 1, 2**64 - 1], np.uint64)), f"y {TOO_WIDE} int32 at t = 5."),
        (Dataset(X, [0, 1, 2**70]), f"y {NUMBERS} at t = 5. Got 'object"),
        (Dataset(X, [0, 1, NAN]), "y must be finite at t = 5. Got [nan] in row 2."),
        (
            Dataset(np.array([[0, 1], [0, INF]]), [0, 1]),
            "x must be finite at t = 5. Got [ 0. inf] in row 1.",
        ),
        (Dataset(X + 0j, [0, 1, 0]), f"x {NUMBERS} at t = 5. Got 'complex128"),
        (Dataset(X, ["a", "b", "a"]), f"y {NUMBERS} at t = 5. Got '<U1"),
        (Dataset(X, [b"a", b"b", b"a"]), f"y {NUMBERS} at t = 5."),
        (Dataset(X.astype(object), [0, 1, 0]), f"x {NUMBERS} at t = 5. Got 'object"),
        (Dataset([[1, 2], [3]], [0, 1]), f"x {NUMBERS} at t = 5. Got 'list'."),
        (Dataset(X, 0), f"y {NUMBERS} at t = 5."),
        (Dataset(X[0], [0, 1]), "x must be an array with one row per example at t = 5."),
        (
            Dataset(X[:0], []),
            "x and y must have the same number of rows, at least one, at t = 5. Got 0 and 0.",
        ),
        (
            Dataset(X, [0, 1]),
            "x and y must have the same number of rows, at least one, at t = 5. Got 3 and 2.",
        ),
    ],
)
def test_numbers_that_jax_would_change_silently_are_refused(data, fragment):
    with pytest.raises(ValueError, match="must") as error:
        padding.batch(data, 5)
    assert fragment in str(error.value)


def test_the_largest_numbers_that_fit_are_let_through():
    wide = np.float64(np.finfo(np.float32).max)
    batch, rows = padding.batch(Dataset(X + wide, [0, 2**31 - 1, -(2**31)]), 1)
    assert rows == 3
    assert batch.x.dtype == np.float32
    assert batch.y.dtype == np.int32
    np.testing.assert_array_equal(batch.x[:3], np.float32(wide))
    np.testing.assert_array_equal(batch.y[:3], [0, 2**31 - 1, -(2**31)])


def test_double_precision_lets_1e300_through(float64):
    assert padding.batch(Dataset(X + 1e300, [0, 1, 0]), 1)[0].x.max() == 1e300


LABELS = {
    "categorical": (
        likelihoods.categorical(),
        3,
        [0, 1, 2],
        [[0, 3], [-1, 0], [0.0, 1.0], [[0], [1]]],
    ),
    "bernoulli": (
        likelihoods.bernoulli(),
        1,
        [0.0, 1.0, 1.0],
        [[0, 2], [-1, 1], [0.5, 0.5], [[0, 1], [1, 0]]],
    ),
    "gaussian": (likelihoods.gaussian(), 1, [-5.0, 0.3], [[[0.0, 1.0], [1.0, 0.0]]]),
    "learned_gaussian": (likelihoods.learned_gaussian(), 1, [-5.0, 0.3], [[[0.0, 1.0]] * 2]),
    "poisson": (likelihoods.poisson(), 1, [0, 7], [[-1, 2], [0.5, 1.0], [[1, 2], [3, 4]]]),
}


@pytest.mark.parametrize("name", LABELS)
def test_labels_that_a_likelihood_cannot_give_are_refused(name):
    likelihood, outputs, good, bad = LABELS[name]
    likelihood.check(np.asarray(good), outputs, " at t = 5")
    for y in bad:
        with pytest.raises(ValueError, match=r"^y must be .* at t = 5\. Got "):
            likelihood.check(np.asarray(y), outputs, " at t = 5")


@pytest.mark.parametrize(
    "weight", [[1.0, -1.0, 1.0], [0.0, 0.0, 0.0], [1.0, NAN, 1.0], [1.0, 1.0], [[1.0]] * 3]
)
def test_weights_that_are_no_weights_are_refused(weight):
    padding.batch(Batch(X, [0, 1, 0], [0.0, 2.0, 0.5]), 5)
    with pytest.raises(ValueError, match=r"^weight must be .* at t = 5\. Got "):
        padding.batch(Batch(X, [0, 1, 0], weight), 5)


def test_a_step_asks_the_likelihood_which_labels_there_are():
    method, begun = hmnn.hmnn(hmnn.linear(2, 2), "categorical", epochs=1), SimpleNamespace(t=4)
    with pytest.raises(ValueError, match=r"^y must be whole numbers from 0 to 1 .* at t = 5\."):
        method.step(begun, Dataset(X, [0, 1, 2]))


def test_targets_may_have_as_many_columns_as_the_network_has_outputs():
    likelihoods.gaussian().check(np.zeros((4, 2)), 2, "")
    likelihoods.gaussian().check(np.zeros((4, 1)), 1, "")
    with pytest.raises(ValueError, match="2 numbers per row"):
        likelihoods.gaussian().check(np.zeros(4), 2, "")


def test_a_keep_that_drops_nothing_is_told():
    with pytest.warns(
        UserWarning,
        match=r"^keep drops nothing: keep_where = 'internal' names no leaf of this network\.",
    ):
        hmnn.hmnn(hmnn.mlp(2, (3,), 2), "categorical", keep=0.5)
    for settings in (
        {"keep": 1.0},
        {"keep": 0.5, "keep_where": "none"},
        {"keep": 0.5, "keep_where": "all"},
    ):
        hmnn.hmnn(hmnn.mlp(2, (3,), 2), "categorical", **settings)  # a warning would be an error


def test_keep_is_checked_leaf_by_leaf():
    rates = jax.tree.map(lambda w: 0.5, SHAPES)
    leaves, structure = jax.tree.flatten(rates)
    leaves[2] = 1.5
    with pytest.raises(ValueError, match=r"^keep must be in \(0, 1\]\. Got 1\.5\.$"):
        families.assign(SHAPES, structure.unflatten(leaves), "all")


@pytest.mark.parametrize("seed", [2**32, 2**64, -(2**31) - 1])
def test_a_seed_that_jax_would_cut_is_refused(seed):
    method = hmnn.hmnn(hmnn.linear(2), "gaussian")
    with pytest.raises(
        ValueError, match=rf"^key must be a seed that fits in 32 bits\. Got {seed}\.$"
    ):
        method.init(seed)


def test_a_good_number_comes_back_as_a_float():
    for value in (1, 1.0, np.float32(1), np.int8(1), jnp.float32(1)):
        result = _check.unit("memory", value)
        assert type(result) is float
        assert result == 1.0
