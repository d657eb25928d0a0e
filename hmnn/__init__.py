"""Neural networks whose weights move in time."""

from importlib import import_module
from typing import Any

from hmnn._check import DivergenceError
from hmnn._types import Batch, Dataset
from hmnn.core.families import DropConnect, Gaussian
from hmnn.core.kernels import jump, ornstein_uhlenbeck, reset, static
from hmnn.core.likelihoods import bernoulli, categorical, gaussian, learned_gaussian, poisson
from hmnn.core.prediction import Prediction
from hmnn.methods import METHODS, Method, bbp, build, descent, hmnn, kurle, vcl
from hmnn.methods.dropconnect import dropconnect
from hmnn.methods.ewc import ewc
from hmnn.methods.laplace import laplace, laplace_projection
from hmnn.methods.lowrank import low_rank
from hmnn.methods.lstm import lstm
from hmnn.methods.natural import natural
from hmnn.methods.persistence import persistence
from hmnn.methods.shrinkage import shrinkage
from hmnn.networks import Network, cnn, from_equinox, from_flax, from_functions, linear, mlp, rnn
from hmnn.store import Trajectory, load, save

__version__ = "0.2.0"

_LATER = {
    "HMNNClassifier": "hmnn.estimators",
    "HMNNRegressor": "hmnn.estimators",
    "evaluate": "hmnn.evaluate",
}
"""Names whose modules need scikit-learn, which takes longer to import than all the rest: imported
when asked for."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'hmnn' has no attribute {name!r}")
    module = import_module(_LATER[name])
    return module if name == "evaluate" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


__all__ = [
    "METHODS",
    "Batch",
    "Dataset",
    "DivergenceError",
    "DropConnect",
    "Gaussian",
    "HMNNClassifier",
    "HMNNRegressor",
    "Method",
    "Network",
    "Prediction",
    "Trajectory",
    "__version__",
    "bbp",
    "bernoulli",
    "build",
    "categorical",
    "cnn",
    "descent",
    "dropconnect",
    "evaluate",
    "ewc",
    "from_equinox",
    "from_flax",
    "from_functions",
    "gaussian",
    "hmnn",
    "jump",
    "kurle",
    "laplace",
    "laplace_projection",
    "learned_gaussian",
    "linear",
    "load",
    "low_rank",
    "lstm",
    "mlp",
    "natural",
    "ornstein_uhlenbeck",
    "persistence",
    "poisson",
    "reset",
    "rnn",
    "save",
    "shrinkage",
    "static",
    "vcl",
]
