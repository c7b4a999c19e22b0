"""A device of its own: evaluates expressions with NumPy."""
