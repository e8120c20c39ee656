"""The files of a run's folder that tell of one record.

Decides which lines may matter before they are parsed, for a history of a gigabyte holds a few dozen that do. Must not
know what they mean. A torn last line, which a kill -9 leaves, is no line; whatever else cannot be read is counted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

Line = dict[str, Any]

_PARTITION = re.compile(r".+-\d{1,9}")


@dataclass(frozen=True, slots=True)
class Unread:
    """Lines of a file that are no JSON objects, at the last reading. first: the number of the first, from 1 on; torn:
    the last line has no end.
    """

    count: int
    first: int
    torn: bool


@dataclass(frozen=True, slots=True)
class RunFiles:
    """open: the file at these parts of a path below the run's folder; names: what a folder there holds; unread: of the
    files of lines that were read to their ends.

    The first two raise OSError for what is not there.
    """

    open: Callable[[Sequence[str]], BinaryIO]
    names: Callable[[Sequence[str]], list[str]]
    unread: dict[tuple[str, ...], Unread] = field(default_factory=dict)

    @classmethod
    def below(cls, folder: Path) -> RunFiles:
        """Of a folder of one's own, whose links are followed."""
        return cls(
            lambda parts: folder.joinpath(*parts).open("rb"),
            lambda parts: sorted(path.name for path in folder.joinpath(*parts).iterdir()),
        )

    def history(self, wanted: re.Pattern[bytes]) -> Iterator[Line]:
        """Lines of the history in which the pattern occurs."""
        return self._lines(("history.jsonl",), wanted)

    def evidence(self, node: str) -> list[str]:
        """What the folder of a node's evidence holds; empty where there is none."""
        return self._listed(("evidence", node))

    def is_part(self, node: str) -> bool:
        """Whether the evidence of a node could not be copied whole, and what there is of it was put aside."""
        return f"{node}.part" in self._listed(("evidence",))

    def why_no_events(self, node: str) -> str:
        """What the system says where a node's event log cannot be opened."""
        try:
            self.open(("evidence", node, "events.jsonl")).close()
        except OSError as error:
            return error.strerror or str(error)
        return "it cannot be read"

    def events(self, node: str, p: str) -> Iterator[Line]:
        """Lines of a node's event log that may be about partition p, and those of its starts and stops."""
        wanted = re.compile(b'"%b"|"e": ?"(?:start|stop)"' % re.escape(json.dumps(p)[1:-1].encode()))
        return self._lines(("evidence", node, "events.jsonl"), wanted)

    def replica(self, node: str, p: str) -> ReplicaFiles | None:
        """A node's replica of p, None where it has none."""
        folder, topic_id = _folder(p)
        found = (ReplicaFiles(self, d, folder) for d, names in self._log_dirs(node) if folder in names)
        return next((one for one in found if not topic_id or one.topic_id() == topic_id), None)

    def is_deleted(self, node: str, p: str) -> bool:
        """Whether a node has a folder of p that only waited for its deletion."""
        deleted = re.compile(re.escape(_folder(p)[0]) + r"\.[0-9a-f]+-delete")
        return any(deleted.fullmatch(name) for _, names in self._log_dirs(node) for name in names)

    def partitions(self, node: str) -> set[str]:
        """Of which a node's evidence has a replica."""
        return {name for _, names in self._log_dirs(node) for name in names if _PARTITION.fullmatch(name)}

    def _log_dirs(self, node: str) -> Iterator[tuple[tuple[str, ...], list[str]]]:
        """(log dir, names in it): the data folder, and what lies in it, for a broker may have several."""
        data = ("evidence", node, "data")
        names = self._listed(data)
        yield data, names
        for name in names:
            if "." not in name and not _PARTITION.fullmatch(name):
                yield (*data, name), self._listed((*data, name))

    def transaction_logs(self, node: str) -> list[str]:
        """Names of the transaction logs of a ZooKeeper node, by their first zxids; empty where there is none."""
        names = (name for name in self._listed(_zookeeper(node)) if re.fullmatch(r"log\.[0-9a-f]{1,16}", name))
        return sorted(names, key=lambda name: int(name.removeprefix("log."), 16))

    def transaction_log(self, node: str, name: str) -> BinaryIO:
        """One of them. Raises OSError."""
        return self.open((*_zookeeper(node), name))

    def zookeeper_epoch(self, node: str) -> int:
        """The last one whose leader a ZooKeeper node followed, or was; 0 where it does not say."""
        try:
            with self.open((*_zookeeper(node), "currentEpoch")) as file:
                text = file.read(32).strip()
        except OSError:
            return 0
        return int(text) if re.fullmatch(rb"\d{1,10}", text) else 0

    def _listed(self, parts: Sequence[str]) -> list[str]:
        try:
            return self.names(parts)
        except OSError:
            return []

    def _lines(self, parts: tuple[str, ...], wanted: re.Pattern[bytes]) -> Iterator[Line]:
        count = first = 0
        torn = False
        with self.open(parts) as file:
            for number, raw in enumerate(file, 1):
                torn = not raw.endswith(b"\n")
                is_wanted = wanted.search(raw) is not None
                if torn or (not is_wanted and _looks_whole(raw)):
                    continue
                line = _parsed(raw)
                if line is None:
                    count, first = count + 1, first or number
                elif is_wanted:
                    yield line
        self.unread[parts] = Unread(count, first, torn)


def _looks_whole(raw: bytes) -> bool:
    """Of a line that need not be parsed: what damages a file leaves other ends, or zeros."""
    return (raw.startswith(b"{") and raw.endswith(b"}\n") and b"\0" not in raw) or raw.isspace()


def _parsed(raw: bytes) -> Line | None:
    """None where it is no JSON object."""
    try:
        line = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) else None


def _folder(p: str) -> tuple[str, str]:
    """What the folder of a partition is called, and the topic id that p names; empty where it names none."""
    topic, _, number = p.rpartition("-")
    name, _, topic_id = topic.partition("~")
    return f"{name}-{number}", topic_id


def _zookeeper(node: str) -> tuple[str, ...]:
    return "evidence", node, "zookeeper", "version-2"


@dataclass(frozen=True, slots=True)
class ReplicaFiles:
    """The files of one replica. log_dir: the folder that it lies in."""

    files: RunFiles
    log_dir: tuple[str, ...]
    p: str

    def topic_id(self) -> str:
        """By its partition.metadata; empty where that says none."""
        try:
            text = self._content((*self.log_dir, self.p, "partition.metadata")).decode("utf-8", "replace")
        except OSError:
            return ""
        named = dict(line.partition(":")[::2] for line in text.splitlines())
        return named.get("topic_id", "").strip()

    def segments(self) -> list[str]:
        """Names of its log files, by their offsets. Raises OSError."""
        return sorted(name for name in self.files.names((*self.log_dir, self.p)) if re.fullmatch(r"\d{20}\.log", name))

    def segment(self, name: str) -> bytes:
        """The content of one. Raises OSError."""
        return self._content((*self.log_dir, self.p, name))

    def epochs(self) -> bytes:
        """Its leader-epoch-checkpoint. Raises OSError."""
        return self._content((*self.log_dir, self.p, "leader-epoch-checkpoint"))

    def checkpoint(self, name: str) -> bytes:
        """A checkpoint of all replicas of its log dir. Raises OSError."""
        return self._content((*self.log_dir, name))

    def _content(self, parts: Sequence[str]) -> bytes:
        with self.files.open(parts) as file:
            return file.read()
