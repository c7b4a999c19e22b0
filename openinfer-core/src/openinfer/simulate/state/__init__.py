"""State: the variables of an executor, with their buffers and caches.

`memory` says what statements may do with variables; `program_memory` and `overlay` are the two implementations. A new
kind of memory belongs here, and so does a new way in which the host names, reads or writes a value. Nothing here knows
in which order statements run.
"""
