"""An operator of its own: defined by a scalar expression, it runs everywhere."""
