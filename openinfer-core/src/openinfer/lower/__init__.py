"""From stages to loop programs: a computation, and how it is to be carried out, becomes loops over statements."""

from openinfer.lower.programs import lowered
from openinfer.lower.threads import threaded

__all__ = ["lowered", "threaded"]
