"""A plugin that offers an operator of core's name."""
