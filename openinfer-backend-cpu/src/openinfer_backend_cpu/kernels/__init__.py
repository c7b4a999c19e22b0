"""Hand-written kernels, one module per family; `openinfer_backend_cpu.registration` finds them by scanning."""
