"""Compilation: from the statements of a resolved graph to items bound to buffers and kernels."""
