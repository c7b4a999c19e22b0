"""Schedules: in which order the places of a stage are visited, as data, and how one is chosen."""

from openinfer.schedule.choice import choose
from openinfer.schedule.loops import Loop, Schedule, plain
from openinfer.schedule.packing import packing

__all__ = ["Loop", "Schedule", "choose", "packing", "plain"]
