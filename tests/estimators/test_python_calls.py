"""One row passes few Python functions of ours: what a debugger shows is short."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import calls

MOST = {"partial_fit": 30, "predict_proba": 15}


def test_a_warm_row_passes_few_functions():
    found = calls.measure()
    for name, most in MOST.items():
        assert 3 <= found[name].total() <= most, found[name]


def test_the_count_finds_what_it_is_for():
    import hmnn

    assert calls.counted(lambda: None).total() == 0
    assert calls.counted(lambda: hmnn.linear(2)).total() >= 2
