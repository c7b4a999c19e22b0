"""Hand-written kernels, found by scan: a module for each family."""
