"""Loop programs as C: loops over counters of type ``ptrdiff_t`` around scalar statements and vectors.

`writer` prints scalar statements, `lane_loops` loops over lanes as short loops of plain C99, `vectors` the same with
the vector types of GCC and Clang; `lanes` has what both know about such a loop, `addresses` the text of indices.
"""

from openinfer_synth_c.loop_programs.addresses import counter, operand_name
from openinfer_synth_c.loop_programs.writer import write_kernel

__all__ = ["counter", "operand_name", "write_kernel"]
