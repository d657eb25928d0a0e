"""The methods, each a function that builds a `Method`; one suite of tests runs over this list."""

from typing import Any

from hmnn.methods.base import Method
from hmnn.methods.dropconnect import dropconnect
from hmnn.methods.ewc import ewc
from hmnn.methods.laplace import laplace
from hmnn.methods.lstm import lstm
from hmnn.methods.persistence import persistence
from hmnn.methods.shrinkage import shrinkage
from hmnn.methods.variational import bbp, hmnn, kurle, vcl

METHODS: dict[str, Any] = {
    "hmnn": hmnn,
    "bbp": bbp,
    "vcl": vcl,
    "kurle": kurle,
    "ewc": ewc,
    "laplace": laplace,
    "dropconnect": dropconnect,
    "lstm": lstm,
    "persistence": persistence,
    "shrinkage": shrinkage,
}

__all__ = [
    "METHODS",
    "Method",
    "bbp",
    "dropconnect",
    "ewc",
    "hmnn",
    "kurle",
    "laplace",
    "lstm",
    "persistence",
    "shrinkage",
    "vcl",
]
