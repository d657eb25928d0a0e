"""Figures, each described once as a plain dictionary: the page shows it, and `png` prints it."""
