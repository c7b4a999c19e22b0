"""Compilation: from the statements of a resolved graph to items, each bound to buffers and a kernel.

A new statement is compiled in `compiler`; operators, cache accesses, counters and operators on other devices have
modules of their own. Everything that can be decided before the first step is decided here.
"""
