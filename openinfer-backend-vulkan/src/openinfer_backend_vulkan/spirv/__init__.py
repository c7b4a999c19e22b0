"""SPIR-V: GLSL is compiled by the compiler found on the machine, cached, and completed with floating-point modes.

Nothing here opens a device; device and synth target share it.
"""
