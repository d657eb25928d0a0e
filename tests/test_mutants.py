"""The list of `benchmarks/mutants.py` does not rot; the command itself runs by hand."""

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import mutants

ROOT = Path(__file__).resolve().parents[1]
LISTED = mutants.listed()


@pytest.mark.parametrize("mutant", LISTED, ids=lambda mutant: mutant.name)
def test_every_mistake_can_still_be_made_and_its_tests_are_there(mutant):
    text = (ROOT / "hmnn" / mutant.file).read_text()
    compile(mutants.mutated(mutant, text), mutant.file, "exec")
    for test in mutant.tests.split():
        file, _, name = test.partition("::")
        assert not name or re.search(rf"^def {name}\(", (ROOT / "tests" / file).read_text(), re.M)
        assert (ROOT / "tests" / file).exists()


def test_there_are_enough_and_each_has_its_own_name():
    assert len(LISTED) >= 60
    assert len({mutant.name for mutant in LISTED}) == len(LISTED)
    rooms = {mutant.file.split("/")[0] for mutant in LISTED}
    assert {"core", "store", "methods", "estimators"} <= rooms


def test_a_mistake_that_applies_nowhere_or_twice_is_an_error():
    for text, times in (("a = 1", 0), ("b b", 2)):
        with pytest.raises(ValueError, match=rf"must apply once in f\. It does {times} times"):
            mutants.mutated(mutants.Mutant("m", "f", "b", "c", ""), text)
