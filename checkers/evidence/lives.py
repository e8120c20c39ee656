"""Evidence of topics that are made anew under the names of their lives, `topic~id`, as the history has them.

Brokers' event logs name the lives themselves (docs/event-log.md). ZooKeeper's znodes do not: those below a topic's are
of the life whose id the topic's znode had. Nor do folders of partitions: `partition.metadata` in them says the id. What
a broker's checkpoints say of such a topic is left out: they may be older than the life. Judges nothing.

Source: kafka.server.PartitionMetadataFile; kafka.zk.TopicZNode.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from checkers.evidence.checkpoints import read_checkpoints
from checkers.evidence.segment_tasks import Segment
from checkers.evidence.zk_txnlog import Change

_TOPICS = "/brokers/topics/"
METADATA = "partition.metadata"


class _Span(NamedTuple):
    """Changes from `since` up to `until` (excluded; None: all) are of the life."""

    since: tuple[int, int]
    until: tuple[int, int] | None
    topic_id: str = ""

    def holds(self, change: Change) -> bool:
        at = (change.zxid, change.position)
        return self.since <= at and (self.until is None or at < self.until)


def of_lives(changes: Sequence[Change], remade: Collection[str]) -> list[Change]:
    """The changes in their order, with the paths of lives. changes: by zxid and position. One whose life is not known
    keeps its path.
    """
    spans = {topic: _spans(changes, topic) for topic in remade}
    return [_of_life(change, spans) for change in changes]


def _of_life(change: Change, spans: Mapping[str, Sequence[_Span]]) -> Change:
    if not change.path.startswith(_TOPICS):
        return change
    topic, slash, below = change.path[len(_TOPICS) :].partition("/")
    for span in spans.get(topic, ()):
        if span.holds(change):
            return change._replace(path=f"{_TOPICS}{topic}~{span.topic_id}{slash}{below}")
    return change


def _spans(changes: Sequence[Change], topic: str) -> list[_Span]:
    """One for each time that the topic's znode was created, up to the next."""
    mine = [change for change in changes if change.path == f"{_TOPICS}{topic}"]
    begins = [(change.zxid, change.position) for change in mine if change.op == "create"]
    found = []
    for since, until in zip(begins, [*begins[1:], None], strict=True):
        span = _Span(since, until)
        ids = [topic_id for one in mine if span.holds(one) and (topic_id := _id_in(one.data))]
        if ids:
            found.append(span._replace(topic_id=ids[-1]))
    return found


def _id_in(data: str | None) -> str | None:
    try:
        topic_id = json.loads(data or "").get("topic_id")
    except (ValueError, AttributeError, RecursionError):
        return None
    return topic_id if isinstance(topic_id, str) else None


def segments_of_lives(segments: Sequence[Segment], remade: Collection[str], evidence: Path) -> list[Segment]:
    """The segments, each of the partition of a life. evidence: the folder of all nodes' evidence."""
    return [replace(one, partition=_named((evidence / one.name).parent, remade)) for one in segments]


def checkpoints_of_lives(node: str, data: Path, remade: Collection[str]) -> list[dict[str, Any]]:
    """Rows of schema.CHECKPOINT of one log dir."""
    rows = []
    for row in read_checkpoints(node, data):
        p = row["p"]
        if p is not None and p.rpartition("-")[0] in remade:
            if row["kind"] != "epoch":
                continue
            row = {**row, "p": _named(data / p, remade)}
        rows.append(row)
    return rows


def _named(folder: Path, remade: Collection[str]) -> str:
    """What a partition's folder is called: as it is, or, of a topic that is made anew, by the life that it names."""
    topic, _, partition = folder.name.rpartition("-")
    if topic not in remade:
        return folder.name
    try:
        lines = (folder / METADATA).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return folder.name
    named = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return f"{topic}~{named['topic_id']}-{partition}" if named.get("topic_id") else folder.name
