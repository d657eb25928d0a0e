"""The methods, each a function that builds a `Method`; one suite of tests runs over this list."""

from typing import Any

from hmnn.methods.dropconnect import dropconnect as _dropconnect
from hmnn.methods.ewc import ewc as _ewc
from hmnn.methods.laplace import laplace as _laplace
from hmnn.methods.lstm import lstm as _lstm
from hmnn.methods.method import Method
from hmnn.methods.persistence import persistence as _persistence
from hmnn.methods.shrinkage import shrinkage as _shrinkage
from hmnn.methods.variational import bbp, build, descent, hmnn, kurle, vcl

METHODS: dict[str, Any] = {
    "hmnn": hmnn,
    "bbp": bbp,
    "vcl": vcl,
    "kurle": kurle,
    "ewc": _ewc,
    "laplace": _laplace,
    "dropconnect": _dropconnect,
    "lstm": _lstm,
    "persistence": _persistence,
    "shrinkage": _shrinkage,
}

__all__ = ["METHODS", "Method", "bbp", "build", "descent", "hmnn", "kurle", "vcl"]
