"""Writes to ZooKeeper, and how a writer finds out whether a write whose response was lost has happened. Pure. A
connection can be lost between a write and its response. The write is then read back: the znode's version, owner and
data show whether it landed, did not land, or met someone else's write. Blind repetition would create sequence nodes
twice, take a foreign ephemeral for one's own, and fail one's own conditional write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class Node:
    """A znode as read. czxid: transaction that created it; owner: session of an ephemeral, 0 otherwise."""

    data: bytes
    version: int
    czxid: int
    mzxid: int
    owner: int


@dataclass(frozen=True, slots=True)
class Create:
    """Fails where the znode exists."""

    path: str
    data: bytes
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class CreateSequence:
    """A persistent node whose name ZooKeeper completes: it cannot be read back, because its name is not known. path:
    the prefix.
    """

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class SetData:
    """version: as last read; −1 would overwrite anything and is refused."""

    path: str
    data: bytes
    version: int

    def __post_init__(self) -> None:
        assert self.version >= 0, "an unconditional write cannot be distinguished from someone else's"


@dataclass(frozen=True, slots=True)
class Delete:
    """Fails where the znode's version is another, or there is none."""

    path: str
    version: int = -1


@dataclass(frozen=True, slots=True)
class Check:
    """Holds while the znode has this version."""

    path: str
    version: int


Operation = Create | CreateSequence | SetData | Delete | Check


class Landed(Enum):
    """What reading back shows of a write whose response was lost."""

    YES = "yes"
    NO = "no"
    OVERTAKEN = "overtaken"
    """Someone else wrote there: treat as a failed condition."""


def landed(operation: Create | SetData | Delete, node: Node | None, session_id: int) -> Landed:
    """What `node`, read after the lost response, shows of `operation`."""
    match operation:
        case Create():
            if node is None:
                return Landed.NO
            mine = node.data == operation.data and node.owner == (session_id if operation.ephemeral else 0)
            return Landed.YES if mine else Landed.OVERTAKEN
        case SetData():
            if node is not None and node.version == operation.version:
                return Landed.NO
            mine = node is not None and node.version == operation.version + 1 and node.data == operation.data
            return Landed.YES if mine else Landed.OVERTAKEN
        case Delete():
            if node is None:
                return Landed.YES
            if operation.version in (-1, node.version):
                return Landed.NO
            return Landed.OVERTAKEN


def landed_together(operations: Sequence[Operation], nodes: Mapping[str, Node | None], session_id: int) -> Landed:
    """The same for an atomic multi: it landed wholly or not at all.

    One write that surely landed proves the whole, unless another write of the multi surely did not. Of a node that is
    deleted and then made anew it can only be seen whether what is there is ours.
    """
    made = {operation.path for operation in operations if isinstance(operation, Create)}
    remade = {operation.path for operation in operations if isinstance(operation, Delete)} & made
    outcomes = []
    for operation in operations:
        if isinstance(operation, Check | CreateSequence) or (
            isinstance(operation, Delete) and operation.path in remade
        ):
            continue
        outcome = landed(operation, nodes.get(operation.path), session_id)
        outcomes.append(Landed.NO if outcome is Landed.OVERTAKEN and operation.path in remade else outcome)
    if not outcomes or all(outcome is Landed.NO for outcome in outcomes):
        return Landed.NO
    if all(outcome is Landed.YES for outcome in outcomes):
        return Landed.YES
    return Landed.OVERTAKEN
