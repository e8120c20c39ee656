"""The faults of a run by its history: start and stop lines of the nemesis, paired. Pure.

What a fault does, the line itself says by its `effects`: a kind that another package brings is judged like any other.

Source: docs/history-format.md, docs/faults.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

STOPS_PROCESS = "stops-process"
CUTS_LINKS = "cuts-links"
NAMES_NO_VICTIM = "names-no-victim"
SKEWS_CLOCK = "skews-clock"
DAMAGES_FILES = "damages-files"
CUTS_POWER = "cuts-power"
EFFECTS = frozenset({STOPS_PROCESS, CUTS_LINKS, NAMES_NO_VICTIM, SKEWS_CLOCK, DAMAGES_FILES, CUTS_POWER})
"""Effects that a nemesis line may say of its fault. Kinds of faults are known by nothing else here."""

FOR_EVER_NS = 2**62


def read_params(params_json: str | None) -> Mapping[str, Any]:
    """A fault's parameters as the history has them; empty where they cannot be read."""
    try:
        params = json.loads(params_json or "{}")
    except (ValueError, RecursionError):
        return {}
    return params if isinstance(params, dict) else {}


def partition_of_file(file: str) -> str | None:
    """The partition whose folder a damaged file is in, by its path; None for a file of a log dir itself."""
    folder = PurePosixPath(file).parent.name
    return folder if folder.rpartition("-")[2].isdigit() else None


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of the run, in run time; stop_ns None while nobody took it back.

    It was seen in force from start_ns; what applied it began at began_ns, what took it back at stop_began_ns.
    """

    fault_id: int
    fault: str
    targets: tuple[str, ...]
    start_ns: int
    stop_ns: int | None
    observed: bool
    observation: str
    error: str | None = None
    stop_observed: bool = True
    params_json: str | None = None
    began_ns: int | None = None
    stop_began_ns: int | None = None
    file: str | None = None
    """Of a file fault: what it damaged, below the broker's data folder; None in older histories."""
    family: str | None = None
    effects: frozenset[str] = frozenset()

    @property
    def damages_files(self) -> bool:
        """Whether it changed files of its targets, which nothing takes back."""
        return DAMAGES_FILES in self.effects

    @property
    def cuts_links(self) -> bool:
        """Whether packets between nodes were lost; `params.grudge` says on which links."""
        return CUTS_LINKS in self.effects

    @property
    def stops_process(self) -> bool:
        """Whether the daemons of its targets were gone or stood still."""
        return STOPS_PROCESS in self.effects

    @property
    def role(self) -> str | None:
        """What its target was to be, and whether it was, for faults that were meant for such a broker."""
        role = read_params(self.params_json).get("role")
        return None if role is None else str(role)

    @property
    def names_victims(self) -> bool:
        """Whether its targets were worse off than other nodes."""
        return NAMES_NO_VICTIM not in self.effects

    def active(self, from_ns: int, to_ns: int) -> bool:
        """Whether it can have had any effect in the span: from the first attempt to apply it until it was seen gone."""
        began = self.start_ns if self.began_ns is None else self.began_ns
        return began <= to_ns and (self.stop_ns is None or self.stop_ns >= from_ns)

    def as_json(self) -> dict[str, Any]:
        return {
            "fault_id": self.fault_id,
            "fault": self.fault,
            "family": self.family,
            "effects": sorted(self.effects),
            "targets": list(self.targets),
            "start_ns": self.start_ns,
            "stop_ns": self.stop_ns,
            "observed": self.observed,
            "observation": self.observation,
            "stop_observed": self.stop_observed,
            **({} if self.role is None else {"role": self.role}),
            **({} if self.error is None else {"error": self.error}),
        }


@dataclass(frozen=True, slots=True)
class Interruption:
    """A span of run time in which brokers stopped, stood still, were cut off, or had files changed, or may have been.

    nodes: which; None: it may have been any, or the links of all. gone: which of them may have been killed, or counted
    as dead; None: any of `nodes`. forgets: files may have been changed, with them what had been written long before.
    """

    from_ns: int
    until_ns: int
    nodes: frozenset[str] | None
    forgets: bool = False
    gone: frozenset[str] | None = None


def interruptions(faults: Iterable[Fault]) -> list[Interruption]:
    """What interrupted brokers, an effect that is not known here included. What nobody took back goes on."""
    breaking = {STOPS_PROCESS, CUTS_LINKS, CUTS_POWER, DAMAGES_FILES}
    return [
        Interruption(
            fault.start_ns if fault.began_ns is None else fault.began_ns,
            FOR_EVER_NS if fault.stop_ns is None else fault.stop_ns,
            None if fault.cuts_links or fault.effects - EFFECTS else frozenset(fault.targets),
            bool(fault.damages_files or fault.effects - EFFECTS),
        )
        for fault in faults
        if fault.effects & breaking or fault.effects - EFFECTS
    ]


def faults_of(marks: Iterable[Mapping[str, Any]]) -> list[Fault]:
    """Start and stop lines of the nemesis, paired by fault id. A fault is observed when its start was."""
    starts: dict[int, Mapping[str, Any]] = {}
    stops: dict[int, Mapping[str, Any]] = {}
    for mark in marks:
        if mark["kind"] != "nemesis" or mark["f"] not in ("start", "stop") or mark["fault_id"] is None:
            continue
        (starts if mark["f"] == "start" else stops).setdefault(int(mark["fault_id"]), mark)
    faults = []
    for fault_id, start in sorted(starts.items()):
        stop = stops.get(fault_id)
        faults.append(
            Fault(
                fault_id,
                str(start["fault"]),
                tuple(start["targets"] or ()),
                int(start["time_ns"]),
                None if stop is None else int(stop["time_ns"]),
                bool(start["observed"]),
                str(start["observation"] or ""),
                None if start["error"] is None else str(start["error"]),
                stop is None or bool(stop["observed"]),
                start.get("params_json"),
                start.get("began_ns"),
                None if stop is None else stop.get("began_ns"),
                start.get("file"),
                start.get("family"),
                frozenset(start.get("effects") or ()),
            )
        )
    return faults
