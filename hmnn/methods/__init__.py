"""The methods, each a function that builds a `Method`; one suite of tests runs over this list."""

from hmnn.methods.base import Method
from hmnn.methods.variational import bbp, hmnn, kurle, vcl

METHODS = {"hmnn": hmnn, "bbp": bbp, "vcl": vcl, "kurle": kurle}

__all__ = ["METHODS", "Method", "bbp", "hmnn", "kurle", "vcl"]
