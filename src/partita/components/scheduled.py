"""The schedules that there are."""

from __future__ import annotations

from partita.components.entries import ComponentEntry, Listing, package_of, tell_strangers
from partita.simulator.schedules import SCHEDULES


class ScheduleEntry(ComponentEntry, frozen=True, kw_only=True):
    """A schedule of pipelines; the rest is as in ``partita.Schedule``."""

    training: bool
    flush: bool
    splits_backward: bool
    default_chunks: int


def schedules() -> Listing[ScheduleEntry]:
    """The schedules of pipelines."""
    tell_strangers()
    same = ("name", "summary", "training", "flush", "splits_backward", "default_chunks")
    found = [ScheduleEntry(**{key: getattr(each, key) for key in same}, package=package_of(each)) for each in SCHEDULES]
    return Listing("schedules", found, lambda entry: (entry.name, entry.summary))
