"""From stages to loop programs: a computation, and how it is to be carried out, becomes loops over statements."""

from openinfer.lower.programs import lowered
from openinfer.lower.runs import FIRST, Runs, in_runs
from openinfer.lower.threads import Forms, dealt_out, threaded

__all__ = ["FIRST", "Forms", "Runs", "dealt_out", "in_runs", "lowered", "threaded"]
