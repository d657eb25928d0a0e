"""What is shown is run. This file needs the plain package only: `make newest` runs it too."""

import jax
import pytest
from pages import PAGES, ROOT, blocks


@pytest.mark.parametrize(
    "page", [p for p in PAGES if "```python" in p.read_text()], ids=lambda p: p.name
)
def test_code_on_the_page_runs(page):
    namespace = {"__name__": f"page_{page.stem}"}
    with (
        jax.numpy_dtype_promotion("standard"),
        jax.numpy_rank_promotion("allow"),
    ):  # as a reader's JAX is set
        for block in blocks(page.read_text()):
            exec(compile(block, str(page), "exec"), namespace)


def test_the_quickstart_is_short():
    first = next(blocks((ROOT / "README.md").read_text()))
    assert len([line for line in first.splitlines() if line.strip()]) <= 20
