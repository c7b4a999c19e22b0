"""OpenInfer's device vulkan: compute shaders through the Vulkan API."""

__version__ = "0.2.0"
