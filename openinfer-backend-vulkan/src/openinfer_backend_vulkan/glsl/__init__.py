"""Kernels as GLSL: loop programs are printed as compute shaders, which are plain data (`shaders.Shader`).

Nothing here opens a device; device and synth target print the same kernels.
"""
