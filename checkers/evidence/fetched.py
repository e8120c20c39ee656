"""A run's folder, whole where Spark reads it, and what plain Python reads of it on this machine.

Decides what is copied here of a folder that only Hadoop knows: run.json and the nodes' small files. History and event
logs stay, and so do segment files that Spark's workers decode. Judges nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from checkers.evidence.prepare import DRIVER_BYTES
from checkers.spark.places import Place, Stored, UnknownPlace, put, remove

_WRITTEN = ("series.json", "results.json")


@dataclass(frozen=True, slots=True)
class RunFolder:
    """local: what plain Python reads and writes. whole: the folder itself, the same where this machine sees it."""

    local: Path
    whole: Place

    def forget_verdict(self) -> None:
        """A crash must not leave the verdict of an earlier analysis behind."""
        for name in _WRITTEN:
            remove(self.local / name)
            remove(self.whole / name)

    def publish(self) -> None:
        """What was written here goes where the whole is, the verdict last."""
        for name in _WRITTEN:
            put(self.local / name, self.whole / name)


def fetched(whole: Stored, to: Path) -> RunFolder:
    """Copy what is to be read here into a folder that is new or empty. Raises UnknownPlace where there is no run."""
    sizes = whole.files.sizes(whole.uri)
    for name in ("run.json", "history.jsonl"):
        if name not in sizes:
            raise UnknownPlace(f"{whole}: holds no {name}; a run folder holds run.json and history.jsonl")
    evidence = {name: size for name, size in sizes.items() if name.startswith("evidence/")}
    many = sum(size for name, size in evidence.items() if _is_segment(name)) > DRIVER_BYTES
    for name in ("run.json", *evidence):
        if not name.endswith("/events.jsonl") and not (many and _is_segment(name)):
            whole.files.fetch(f"{whole}/{name}", to / name)
    return RunFolder(to, whole)


def _is_segment(name: str) -> bool:
    return "/data/" in name and name.endswith(".log")
