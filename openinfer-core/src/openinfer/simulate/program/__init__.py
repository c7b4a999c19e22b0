"""Compiled programs: their items, the machine that runs them, and the events and errors of a run.

An item is a node bound to buffers; the machine keeps a stack of the blocks and loops that are being run. A new kind of
item belongs in `items`, what traces say about it in `describe` and `recording`. Nothing here chooses kernels or
evaluates a graph.
"""
