"""How many Python functions of hmnn a warm call of one row passes: `python benchmarks/calls.py
[--json]`.

Counted by the interpreter, so that a busy machine gives the same figure.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

import hmnn

HOME = str(Path(hmnn.__file__).parent)


def counted(call: Callable[[], object]) -> Counter:
    """The functions of hmnn that a call passes, and how often."""
    found: Counter = Counter()

    def note(frame, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(HOME):
            found[f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_name}"] += 1

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def measure() -> dict[str, Counter]:
    """The calls of a classifier with two classes."""
    x = np.random.default_rng(0).normal(size=(8, 7))
    y = (x[:, 0] > 0).astype(int)
    model = hmnn.HMNNClassifier(random_state=0).partial_fit(x[:1], y[:1], classes=[0, 1])
    calls = {
        "partial_fit": lambda: model.partial_fit(x[1:2], y[1:2]),
        "predict_proba": lambda: model.predict_proba(x[1:2]),
    }
    for call in [*calls.values()] * 2:  # warm
        call()
    return {name: counted(call) for name, call in calls.items()}


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    found = measure()
    if parser.parse_args().json:
        print(json.dumps({name: calls.total() for name, calls in found.items()}))
        return
    for name, calls in found.items():
        print(f"{name} of one row: {calls.total()} Python calls")
        print("  " + ", ".join(f"{function} {number}" for function, number in calls.items()))


if __name__ == "__main__":
    main()
