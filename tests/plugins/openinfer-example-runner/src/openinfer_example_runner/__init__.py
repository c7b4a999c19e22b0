"""A runner of its own: spreads the inputs of a batch over threads."""
