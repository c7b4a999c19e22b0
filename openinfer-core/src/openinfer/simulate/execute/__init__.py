"""Execution: the executor that the host steps, and the ways in which a step runs.

`executor` is what users call. `steps` runs a step, whole on devices that can or node by node; `program_binder` binds
the program to memory for the sizes of a step; `whole_program` and `device_state` serve devices that keep the state.
"""
