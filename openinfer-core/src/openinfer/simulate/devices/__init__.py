"""Devices: what the simulator needs of one, how one is opened, and how operators are bound to its buffers.

A backend implements the protocols in `backend` and `programs`. Their methods are public: plugins implement them, so a
new capability is a protocol of its own, which the simulator tests for. Backends of plugins are wrapped by
`guarded_backend`, which reports their errors and checks what they return. Nothing here knows the memory of a
running program.
"""
