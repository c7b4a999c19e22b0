"""Schedules: in which order the places of a stage are visited, as data, and how one is chosen.

`loops` has the data, `text` their text both ways, `verify` checks them against a stage, `choice` picks one by cost and
`packing` says in which order constants are read, `merging` which axes become one, `thread_tiles` what a thread of a
GPU computes.
"""

from openinfer.schedule.borders import padded_factor
from openinfer.schedule.choice import choose, compared, equals, estimate
from openinfer.schedule.errors import ScheduleError
from openinfer.schedule.loops import Loop, Schedule, plain
from openinfer.schedule.merging import merged
from openinfer.schedule.packing import packing
from openinfer.schedule.row_sums import along_rows, stays_inside
from openinfer.schedule.thread_tiles import thread_tile
from openinfer.schedule.threads import RowSchedule, Threads, TileShape
from openinfer.schedule.verify import verify

__all__ = [
    "Loop",
    "RowSchedule",
    "Schedule",
    "ScheduleError",
    "Threads",
    "TileShape",
    "along_rows",
    "choose",
    "compared",
    "equals",
    "estimate",
    "merged",
    "packing",
    "padded_factor",
    "plain",
    "stays_inside",
    "thread_tile",
    "verify",
]
