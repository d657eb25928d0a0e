"""Networks for the filter: init(key) -> weights, apply(weights, x) -> outputs."""

from hmnn.networks.adapters import Network, from_equinox, from_flax, from_functions
from hmnn.networks.zoo import cnn, linear, mlp, rnn

__all__ = ["Network", "cnn", "from_equinox", "from_flax", "from_functions", "linear", "mlp", "rnn"]
