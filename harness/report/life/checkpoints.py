"""What the checkpoint files of each replica say of one offset: its leader epoch, high watermark, log start.

Decides the words, and where replicas disagree. Files are Kafka's text form: version, number of entries, one entry a
line. One that does not keep to it is torn or of something else: said, not raised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.report.life.files import ReplicaFiles
from harness.report.words import listed

_MARKS = {
    "replication-offset-checkpoint": "high watermark",
    "log-start-offset-checkpoint": "log start",
}


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Of one replica. epoch: which it says the offset is of, None where it does not say; log_start: None where it has
    no checkpoint of one; text: a sentence.
    """

    node: str
    text: str
    epoch: int | None = None
    log_start: int | None = None


def checkpoints(replica: ReplicaFiles, node: str, offset: int) -> Checkpoints:
    """Of a replica that is there."""
    said, epoch = _epoch(replica, offset)
    marks: dict[str, int] = {}
    for name, what in _MARKS.items():
        try:
            found = _mark(replica.checkpoint(name), replica.p)
        except FileNotFoundError:
            # Brokers write these from time to time; a log start has an entry only where it is above the first segment.
            found = None
        except OSError as error:
            said.append(f"{name} cannot be read: {error.strerror or error}")
            continue
        except ValueError as error:
            said.append(f"{name} is torn or damaged: {error}")
            continue
        if found is not None:
            marks[what] = found
            said.append(f"{what} {found} when that was last written")
    return Checkpoints(node, f"{node}: {'; '.join(said)}.", epoch, marks.get("log start"))


def _epoch(replica: ReplicaFiles, offset: int) -> tuple[list[str], int | None]:
    try:
        content = replica.epochs()
    except OSError as error:
        return [f"leader-epoch-checkpoint cannot be read: {error.strerror or error}"], None
    try:
        entries = [(int(epoch), int(start)) for epoch, start in _entries(content, 2)]
    except ValueError as error:
        return [f"leader-epoch-checkpoint is torn or damaged: {error}"], None
    if not entries:
        return ["leader-epoch-checkpoint is empty"], None
    after = next((entry for entry in entries if entry[1] > offset), None)
    here = [entry for entry in entries if entry[1] <= offset]
    if not here:
        return [
            f"offset {offset} lies below its first leader epoch, {entries[0][0]}, from offset {entries[0][1]}"
        ], None
    epoch, start = here[-1]
    until = ", the last" if after is None else f", up to leader epoch {after[0]} from {after[1]}"
    return [f"leader epoch {epoch}, from offset {start}{until}"], epoch


def _mark(content: bytes, p: str) -> int | None:
    topic, _, number = p.rpartition("-")
    return next((int(entry[2]) for entry in _entries(content, 3) if entry[:2] == [topic, number]), None)


def _entries(content: bytes, fields: int) -> list[list[str]]:
    """Raises ValueError where the file is not whole."""
    lines = content.decode("ascii", "replace").splitlines()
    if not lines or lines[0].strip() != "0":
        raise ValueError(f"its first line is {lines[0][:40] if lines else ''!r}, not the version, 0")
    if len(lines) < 2 or not lines[1].strip().isdecimal():
        raise ValueError("its second line is not the number of entries")
    entries = [line.split(" ") for line in lines[2:] if line.strip()]
    if len(entries) != int(lines[1]):
        raise ValueError(f"{len(entries)} entries, and its second line says {int(lines[1])}")
    for entry in entries:
        if len(entry) != fields:
            raise ValueError(f"entry {' '.join(entry)[:80]!r} has {len(entry)} fields, not {fields}")
    return entries


def disagreement(replicas: Sequence[tuple[str, int]], of: str) -> str | None:
    """A sentence where replicas say different leader epochs of one offset. replicas: (node, epoch)."""
    said: dict[int, list[str]] = {}
    for node, epoch in replicas:
        said.setdefault(epoch, []).append(node)
    if len(said) < 2:
        return None
    groups = [f"{epoch} by {listed(nodes)}" for epoch, nodes in sorted(said.items())]
    return f"The replicas disagree: the offset is of leader epoch {listed(groups)}, {of}."
