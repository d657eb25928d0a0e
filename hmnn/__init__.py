"""Neural networks whose weights move in time."""

from hmnn._check import DivergenceError
from hmnn._types import Dataset
from hmnn.core.prediction import Prediction
from hmnn.methods import METHODS, Method, bbp, hmnn, kurle, vcl
from hmnn.networks import Network, cnn, from_equinox, from_flax, from_functions, linear, mlp, rnn
from hmnn.store import Trajectory, load, save

__version__ = "0.1.0"

__all__ = [
    "METHODS",
    "Dataset",
    "DivergenceError",
    "Method",
    "Network",
    "Prediction",
    "Trajectory",
    "__version__",
    "bbp",
    "cnn",
    "from_equinox",
    "from_flax",
    "from_functions",
    "hmnn",
    "kurle",
    "linear",
    "load",
    "mlp",
    "rnn",
    "save",
    "vcl",
]
