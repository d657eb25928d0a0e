"""One colour and one dash for every method, the same in all sections.

The hues are those of Okabe and Ito, which the colour-blind can tell apart. The bright ones are made
darker, so that each stands out by 3 to 1 from a white and from a nearly black ground. Relatives
share a hue and differ in their dash.
"""

from typing import NamedTuple

HUES = ("#0072b2", "#d55e00", "#009e73", "#c26a9c", "#bd8300", "#3d9bd6")
BLUE, VERMILION, GREEN, PURPLE, AMBER, SKY = HUES
GREY = "#808080"


class Look(NamedTuple):
    """How a method is drawn."""

    colour: str
    dash: str = "solid"
    width: float = 1.6


METHODS = {
    "hmnn": Look(BLUE, width=2.6),
    "hmnn_paper": Look(BLUE, width=2.6),
    "hmnn_diagonal": Look(BLUE, "dash", 2.6),
    "hmnn_full": Look(BLUE, "dash", 2.6),
    "hmnn_keep": Look(SKY),
    "bbp": Look(GREEN),
    "bbp_diagonal": Look(GREEN, "dash"),
    "bbp_once": Look(GREEN, "dot"),
    "kurle": Look(AMBER),
    "vcl": Look(VERMILION),
    "ewc": Look(PURPLE),
    "lstm": Look(PURPLE),
    "laplace": Look(PURPLE),
    "dropconnect": Look(VERMILION),
    "dropconnect_diagonal": Look(VERMILION, "dash"),
    "persistence": Look(GREY),
    "shrinkage": Look(GREY, "dash"),
    "loop": Look(GREY, "dot"),
    "last-label": Look(GREY),
    "last-value": Look(GREY),
    "logistic": Look(AMBER),
    "linear": Look(AMBER),
    "hoeffding": Look(PURPLE),
    "arf": Look(GREEN),
}
TRUTH = Look(GREY, "dash", 1.4)
"""What is no method: the truth, a perfect reader, perfect calibration."""


def look(method: str, place: int = 0) -> Look:
    """The look of a method; one that is not known takes a hue by its place in the figure."""
    turn, hue = divmod(place, len(HUES))
    return METHODS.get(method) or Look(HUES[hue], ("solid", "dash", "dot")[turn % 3])


def faint(colour: str, opacity: float = 0.18) -> str:
    """A colour for an area behind lines."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"
