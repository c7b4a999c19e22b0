"""The graph: what a program says, as frozen data, and what it means once every size and type is known."""
