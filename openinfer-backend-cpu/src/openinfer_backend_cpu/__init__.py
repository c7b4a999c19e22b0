"""OpenInfer's device cpu: NumPy kernels."""

__version__ = "0.2.0"
