"""Consumer blocks: their memory and code, their threads, and the variables that they exchange with ``entry``.

Rules of ``yield`` and ``await``, checks for races and deadlocks, and the order in which consumers run change here; the
machine sees them only as a `openinfer.simulate.program.machine.Exchange`.
"""
