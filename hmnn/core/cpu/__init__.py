"""How the filter is fast on a processor; nobody reads this room to understand the method."""
