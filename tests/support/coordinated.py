"""What a coordinator keeps of a partition, as plain as can be."""

from __future__ import annotations

from collections.abc import Iterable

from broker.wire.coordinator_records.scan import Found


class Values:
    """A state that is the list of the log's values, and takes that many turns to be made ready."""

    TURNS = 1

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.values: list[str] = []
        self.turns = 0
        self.complete = False
        self.unloaded = False

    def take(self, found: Iterable[Found]) -> None:
        assert not self.unloaded
        self.values += [(value or b"").decode() for *_, value in found]

    def bring_up(self) -> bool:
        assert not self.complete
        self.turns += 1
        return self.turns >= self.TURNS

    def loaded(self) -> None:
        assert self.turns >= self.TURNS
        assert not self.complete
        self.complete = True

    def unload(self) -> None:
        assert not self.unloaded
        self.unloaded = True
