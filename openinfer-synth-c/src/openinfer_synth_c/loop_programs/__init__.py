"""Loop programs as C: loops over counters of type ``ptrdiff_t`` around scalar statements and vectors.

`writer` prints scalar statements, `lane_loops` loops over lanes: on vectors, whose types `vector_types` defines in
plain C99 or in the form of GCC and Clang, and `vector_functions` what is done to them. `lanes` has what is known about
such a loop, `addresses` the text of indices.
"""

from openinfer_synth_c.loop_programs.addresses import counter, operand_name
from openinfer_synth_c.loop_programs.writer import write_kernel

__all__ = ["counter", "operand_name", "write_kernel"]
