"""Compiled programs: their items, the machine that runs them, and the events and errors of a run."""
