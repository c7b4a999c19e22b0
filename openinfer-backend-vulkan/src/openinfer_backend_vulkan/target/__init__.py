"""The synth target vulkan: GLSL compute shaders of the device's kernels, and a host program in C99 that runs them."""
