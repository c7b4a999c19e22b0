"""Memory of an opened device: blocks and the buffers cut from them, and the staging ring that moves arrays."""
