"""What operators should compute: slow, plain implementations from the specification's formulas, for tests only.

Each module holds one family as ``ORACLES``, a mapping from operator names to functions; they are found by scanning, so
a new family is a new module. Oracles never call kernels, nor the expressions that operators are defined by.

A module may say more about some of its operators, in mappings of the same kind: ``RESULT_TYPES``, the element types of
results where they are not that of the first input; ``ILLEGAL``, the calls that the specification refuses among those
that the kit makes of examples and values of settings; ``REFUSED``, elements that end a step with an error; ``SUMS``,
the number of terms of the sums that an operator may add up in any order, where it is linear in each of its inputs.
"""
