"""Large calls of operators: sizes at which kernels change their way, all odd so that something is left over.

Each module holds one family as ``LARGE``, a mapping from operator names to examples; they are found by scanning, so a
new family is a new module. Operators on elements and reductions to one element have large cases anyway.

The sizes go past the vectors, tiles and blocks of the kernels that come with OpenInfer (4 to 1,024 columns, 64 KiB to
1 MiB of workspace), and products past the size at which they are shared among threads. What only begins at sixteen
million elements is left to benchmarks.
"""
