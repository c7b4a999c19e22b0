"""Random inputs of a program that mean something to it: indices that exist, counts that end, all values of small types.

What an input is used for is derived from the program and from the definitions of its operators.
"""

from openinfer.random_inputs.drawing import drawn, drawn_text
from openinfer.random_inputs.intervals import Interval
from openinfer.random_inputs.ranges import Specials, ValueRange, input_ranges, range_of_type

__all__ = ["Interval", "Specials", "ValueRange", "drawn", "drawn_text", "input_ranges", "range_of_type"]
