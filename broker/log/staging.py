"""Batches that have offsets but are not in the file yet. Pure."""

from __future__ import annotations

from broker.runtime.ports import Offset

StagedBatch = tuple[Offset, Offset, int, int]
"""(base offset, last offset, max timestamp, bytes)."""


class StagedRun:
    """Staged bytes that go to one segment.

    roll_at: first start a segment with this base offset. The views are the caller's memory, valid until `write`.
    """

    __slots__ = ("batches", "roll_at", "snapshot", "views")

    def __init__(self, roll_at: Offset | None, snapshot: bytes | None = None) -> None:
        self.roll_at = roll_at
        self.snapshot = snapshot
        self.views: list[memoryview] = []
        self.batches: list[StagedBatch] = []
