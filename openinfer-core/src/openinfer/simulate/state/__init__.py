"""State: the variables of an executor, their buffers and caches, and how the host reads and writes them by name."""
