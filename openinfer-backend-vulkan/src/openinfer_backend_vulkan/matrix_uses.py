"""How a shader says what a cooperative matrix is used for: by the ``constant_id`` of its number of rows.

`glsl` prints such constants, `spirv` reads them (`openinfer_backend_vulkan.spirv.matrices`).
"""

FIRST_USE = 100
"""The ``constant_id`` of a left factor; others follow in the order of `USES`."""

USES = ("left", "right", "total")
"""Uses of a matrix, in the order of their numbers in SPIR-V."""
