"""Write docs/benchmarks.md and its plot from the figures in benchmarks/results.

`python benchmarks/report.py`, after `step.py --json`, `peers.py --json`, `memory.py --json` and
`first_call.py --json` have been sent there.
"""

import json
from pathlib import Path

import harness
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
GOALS = {
    ("784-400-400-10", 128): {"full": "2.35 / 2.0", "block": "1.9 / 1.55"},
    ("784-100-100-10", 128): {"full": "2.4 / 2.0", "block": "1.9 / 1.7"},
    ("130-500-20-500-130", 36): {"full": "3.7 / 3.2"},
    ("2-1", 10000): {"full": "1.1 / 1.05"},
}


def results(name: str):
    """One file of figures."""
    return json.loads((HERE / "results" / f"{name}.json").read_text())


def table(columns: list[str], rows: list[list]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows])


def steps(rows: list[dict]) -> str:
    """The table of training steps."""
    cells = []
    for row in rows:
        goal = GOALS.get((row["network"], row["batch"]), {}).get(row["mode"], "")
        figures = [
            f"{row['median_ms']:.3f}",
            f"{row['min_ms']:.3f}",
            f"{row['ratio']:.2f}",
            f"{row['ns_per_weight']:.1f}",
        ]
        if row["mode"] == "plain" or row["network"] == "2-1":
            figures[3] = ""
        cells.append([row["network"], row["batch"], row["gamma"], row["mode"], *figures, goal])
    return table(
        [
            "network",
            "batch",
            "keep",
            "mode",
            "median ms",
            "min ms",
            "x plain",
            "ns / weight",
            "must / goal",
        ],
        cells,
    )


def two_cores(rows: list[dict]) -> str:
    """One core beside two."""
    if not (HERE / "results" / "cores.json").exists():
        return "Not measured on this machine yet."
    one = {(row["network"], row["batch"], row["mode"]): row["median_ms"] for row in rows}
    cells = []
    for row in results("cores"):
        alone = one[row["network"], row["batch"], row["mode"]]
        both = row["median_ms"]
        cells.append(
            [
                row["network"],
                row["batch"],
                row["mode"],
                f"{alone:.3f}",
                f"{both:.3f}",
                f"{alone / both:.2f}",
            ]
        )
    return table(["network", "batch", "mode", "one core, ms", "two cores, ms", "gain"], cells)


def plot(rows: list[dict], peers: list[dict]) -> None:
    """Cost per weight against width, and milliseconds beside the peers."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    wide = [
        row for row in rows if row["network"].count("-") == 2 and row["network"].startswith("784")
    ]
    for mode, colour in (("full", "#2a6fbb"), ("block", "#f2b134")):
        chosen = [row for row in wide if row["mode"] == mode]
        widths = [harness.sizes(row["network"])[1] for row in chosen]
        left.plot(widths, [row["ns_per_weight"] for row in chosen], "o-", color=colour, label=mode)
    left.set(
        xscale="log",
        xlabel="width of 784-width-10",
        ylabel="ns per weight over plain SGD",
        ylim=(0, None),
    )
    left.legend()
    names = [row["name"] for row in peers][::-1]
    ours = ["#2a6fbb" if name.startswith("hmnn") else "#999999" for name in names]
    right.barh(names, [row["median_ms"] for row in peers][::-1], color=ours)
    right.set(xlabel="ms per step, 784-400-400-10, batch 128, one core")
    figure.savefig(DOCS / "img" / "benchmarks.png", dpi=110)


def main() -> None:
    """Write the page."""
    rows, peers, memory, first = (
        results(name) for name in ("step", "peers", "memory", "first_call")
    )
    machine = ", ".join(f"{name} {value}" for name, value in peers["machine"].items())
    plot(rows, peers["rows"])
    peer_rows = [
        [row["name"], row["does"], f"{row['median_ms']:.1f}", f"{row['min_ms']:.1f}"]
        for row in peers["rows"]
    ]
    memory_rows = [
        [
            row["weights"],
            *(
                f"{row[k]:.1f}"
                for k in (
                    "plain_mb",
                    "full_mb",
                    "full_arrays_over_plain",
                    "block_arrays_over_plain",
                )
            ),
        ]
        for row in memory["by_weights"]
    ]
    length = memory["by_length"]
    page = (
        (HERE / "page.md")
        .read_text()
        .format(
            machine=machine,
            steps=steps(rows),
            peers=table(["name", "what it does", "median ms", "min ms"], peer_rows),
            memory=table(
                [
                    "weights",
                    "plain MB",
                    "full MB",
                    "full: arrays over plain",
                    "block: arrays over plain",
                ],
                memory_rows,
            ),
            length=", ".join(
                f"{row['resident_mb']:.0f} MB at t = {row['t']}" for row in (length[1], length[-1])
            ),
            first=(
                "{not_cached:.1f} s compiling, {cached:.1f} s with the "
                "program in the cache ({network})"
            ).format(**first),
            cores=two_cores(rows),
        )
    )
    (DOCS / "benchmarks.md").write_text(page)


if __name__ == "__main__":
    main()
