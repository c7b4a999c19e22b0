"""Emitters of kernels, one module per family; found by `openinfer_synth_c.registration`."""
