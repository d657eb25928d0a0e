"""Records, tables and figures: the only room that plots."""
