"""The simulator: runs a resolved graph as written, node by node."""
