"""Trackers of runs: TensorBoard and MLflow hear all that `progress.jsonl` does.

Both write files in the folder of the run, and nothing leaves the machine. Names are part/value,
steps are t; what was found at the end stands under final/.
"""

import json
import os
import re
import textwrap
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from hmnn import _check
from hmnn.lab import records

QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
BATCH = 500
"""Metrics that MLflow is told at once; it takes 1000."""


class TensorBoard:
    """Events in the folder `tensorboard`; a resumed run adds a file, which TensorBoard joins."""

    name = "tensorboard"

    def __init__(self, folder: Path, about: dict[str, Any], new: bool) -> None:
        place = folder / "tensorboard"
        old = list(place.glob("events.out.tfevents.*"))
        for path in old if new else ():
            path.unlink()
        self.fresh = new or not old
        if self.fresh:
            _write_text(place, "config", json.dumps(records.plain(about), indent=2))
        self.writer = import_module("tensorboard.summary").Writer(str(place))

    def note(self, seconds: float, part: str, t: int, values: dict[str, float]) -> None:
        """Scalars at step t."""
        for name, value in values.items():
            self.writer.add_scalar(f"{part}/{name}", value, t)
        self.writer.flush()

    def end(self, metrics: dict[str, Any]) -> None:
        """Scalars at step 0."""
        self.note(0.0, "final", 0, scalars(metrics))

    def close(self) -> None:
        """Close the file."""
        self.writer.close()


class MLflow:
    """A run in the folder `mlruns`, a store of plain files; a resumed run goes on in it."""

    name = "mlflow"

    def __init__(self, folder: Path, about: dict[str, Any], new: bool) -> None:
        self.client = import_module("mlflow").MlflowClient((folder.absolute() / "mlruns").as_uri())
        self.entities = import_module("mlflow.entities")
        name, run_name = about["experiment"], folder.absolute().name
        known = self.client.get_experiment_by_name(name)
        experiment = known.experiment_id if known else self.client.create_experiment(name)
        latest = {"order_by": ["attributes.start_time DESC"], "max_results": 1}
        runs = [] if new else self.client.search_runs([experiment], **latest)
        self.fresh, self.status = not runs, "KILLED"
        run = runs[0] if runs else self.client.create_run(experiment, run_name=run_name)
        self.run = run.info.run_id
        if self.fresh:
            values = records.plain({**about, **about["config"]}).items()
            told = [self.entities.Param(k, str(v)[:6000]) for k, v in values if k != "config"]
            self.client.log_batch(self.run, params=told)
        self.client.update_run(self.run, status="RUNNING")

    def note(self, seconds: float, part: str, t: int, values: dict[str, float]) -> None:
        """Metrics at step t."""
        now, metric = int(1000 * time.time()), self.entities.Metric
        made = [metric(_key(f"{part}/{name}"), value, now, t) for name, value in values.items()]
        for i in range(0, len(made), BATCH):
            self.client.log_batch(self.run, metrics=made[i : i + BATCH])

    def end(self, metrics: dict[str, Any]) -> None:
        """Metrics at step 0; the run is finished."""
        self.note(0.0, "final", 0, scalars(metrics))
        self.status = "FINISHED"

    def close(self) -> None:
        """Say how the run ended; one that was stopped is killed, until it is resumed."""
        self.client.set_terminated(self.run, self.status)


TRACKERS = {"tensorboard": TensorBoard, "mlflow": MLflow}


def check(names: list[str]) -> None:
    """Refuse a tracker that is not known, or whose library is not there."""
    for name in names:
        _check.choice("--track", name, TRACKERS)
        if name == "mlflow":
            os.environ.update(QUIET)  # read when it is imported
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # 3.17 must be told so
        try:
            import_module(name)
        except ImportError:
            raise ValueError(f"--track {name} needs a library: pip install hmnn[{name}].") from None


def open_(names: list[str], folder: Path, about: dict[str, Any], new: bool) -> list[Any]:
    """Begin to track a run, or go on; each name once."""
    made = []
    for name in dict.fromkeys(names):
        try:
            made.append(TRACKERS[name](folder, about, new))
        except Exception as error:
            said = " ".join(str(error).split())
            raise ValueError(f"--track {name} could not begin: {said}") from error
    return made


def scalars(metrics: Any) -> dict[str, float]:
    """The finite numbers in dictionaries of dictionaries, by path; lists are for the record."""
    found = records.flat(records.plain(metrics), "/")
    return {k: v for k, v in found if isinstance(v, int | float) and not isinstance(v, bool)}


def _key(name: str) -> str:
    """A name with the signs that MLflow allows."""
    return re.sub(r"[^\w\-. :/]", "_", name)


def _write_text(place: Path, tag: str, text: str) -> None:
    """A text in a file of its own: `tensorboard.summary.Writer` knows scalars only."""
    writers = import_module("tensorboard.summary.writer.event_file_writer")
    writer, shown = writers.EventFileWriter(str(place)), textwrap.indent(text, "    ")  # as it is
    event = import_module("tensorboard.compat.proto.event_pb2").Event(wall_time=time.time(), step=0)
    about = import_module("tensorboard.plugins.text.metadata").create_summary_metadata(tag, "")
    content = np.array(shown.encode(), dtype=object)
    tensor = import_module("tensorboard.util.tensor_util").make_tensor_proto(content)
    event.summary.value.add(tag=f"{tag}/text_summary", metadata=about, tensor=tensor)
    writer.add_event(event)
    writer.close()
