"""Consumer blocks: their memory and code, their threads, and the variables that they exchange with ``entry``."""
