"""Work on an opened device: pipelines, commands and their submission, faults that kernels find, timestamps.

`engine.Engine` holds the parts that whole programs work with.
"""
