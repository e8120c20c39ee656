"""What the catalogue says of one checker: its title, its family, and what it must have seen before it may say valid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Group = Literal["black-box", "white-box", "coverage"]
Source = Literal["history", "events", "segments", "zookeeper"]


@dataclass(frozen=True, slots=True)
class Spec:
    """name: as in results.json. needs: figure → what its absence means. sources: evidence it rests on.

    none: figure → what is said of it; a run in which it is not 0 is not valid. own: judges operations that some
    workloads alone have, or files that some systems alone leave; a run of another leaves nothing out. of_run: needs are
    of the run as a whole, not of each partition of its topic.
    """

    name: str
    title: str
    group: Group
    needs: Mapping[str, str]
    sources: tuple[Source, ...] = ("history",)
    linearizability: bool = False
    none: Mapping[str, str] = field(default_factory=dict)
    own: bool = False
    of_run: bool = False


def own(name: str, title: str, needs: Mapping[str, str], *, of_run: bool = False) -> Spec:
    """A black-box checker of operations that some workloads alone have."""
    return Spec(name, title, "black-box", needs, own=True, of_run=of_run)
