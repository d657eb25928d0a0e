"""The commands of the lab: run, list, sweep, reproduce, report."""
