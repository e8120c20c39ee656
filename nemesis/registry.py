"""All faults by name, and what of them is available on given nodes."""

from __future__ import annotations

from collections.abc import Mapping

from nemesis import schedule
from nemesis.base import ClusterView, Fault
from nemesis.clock import Drift, Step, Strobe
from nemesis.files import file_faults
from nemesis.partition import Partition
from nemesis.process import Kill, Pause, Stop


def make_faults() -> Mapping[str, Fault]:
    """Fresh instances of every fault, by the name that run files use."""
    faults: list[Fault] = [Kill(), Stop(), Pause(), Step(), Drift(), Strobe()]
    shapes = [Partition(name) for name in ("isolate", "halves", "majority-ring", "one-way", "cut-zookeeper")]
    by_name = {fault.name: fault for fault in [*faults, *shapes, *file_faults()]}
    assert set(by_name) == set(schedule.KINDS)
    return by_name


def available(view: ClusterView) -> list[tuple[str, str | None]]:
    """(fault, None when these nodes can do it, else what is missing), in the order of the catalogue."""
    faults = make_faults()
    return [(name, faults[name].probe(view)) for name in schedule.KINDS]
