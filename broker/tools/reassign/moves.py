"""What a reassignment moves: checks of a plan, throttles that it needs, and the lines about it. No I/O."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from broker.tools.client.admin import Reassignment, TopicPartition
from broker.tools.client.errors import ToolError
from broker.tools.json_files import ANY_LOG_DIR, Placement
from broker.tools.text import duplicates, joined


class Move(NamedTuple):
    """Brokers that have a partition, and brokers that are to get it."""

    sources: frozenset[int]
    destinations: frozenset[int]


class Found(NamedTuple):
    """A partition's replicas now and as they are to be. done: no reassignment of it goes on."""

    current: tuple[int, ...]
    target: tuple[int, ...]
    done: bool


def name_of(where: TopicPartition) -> str:
    """`topic-0`."""
    return f"{where[0]}-{where[1]}"


def names_of(partitions: Iterable[TopicPartition]) -> str:
    """Sorted, with commas."""
    return ",".join(map(name_of, sorted(partitions)))


def checked(plan: Sequence[Placement]) -> dict[TopicPartition, list[int]]:
    """Replicas by partition. Raises ToolError for a plan that cannot be meant."""
    if not plan:
        raise ToolError("Partition reassignment list cannot be empty")
    if not all(one.replicas for one in plan):
        raise ToolError("Partition replica list cannot be empty")
    partitions = [one.where for one in plan]
    if doubled := {where for where in partitions if partitions.count(where) > 1}:
        raise ToolError(f"Partition reassignment contains duplicate topic partitions: {names_of(doubled)}")
    wrong = [
        f"{name_of(one.where)} contains multiple entries for {joined(twice)}"
        for one in plan
        if (twice := duplicates(one.replicas))
    ]
    if wrong:
        raise ToolError(f"Partition replica lists may not contain duplicate entries: {'. '.join(wrong)}")
    return {one.where: one.replicas for one in plan}


def as_json(assignment: Mapping[TopicPartition, Sequence[int]]) -> str:
    """What --reassignment-json-file reads, on one line."""
    partitions = [
        {
            "topic": topic,
            "partition": partition,
            "replicas": list(assignment[topic, partition]),
            "log_dirs": [ANY_LOG_DIR] * len(assignment[topic, partition]),
        }
        for topic, partition in sorted(assignment)
    ]
    return json.dumps({"version": 1, "partitions": partitions}, separators=(",", ":"))


def moves(
    ongoing: Mapping[TopicPartition, Reassignment],
    proposed: Mapping[TopicPartition, Sequence[int]],
    current: Mapping[TopicPartition, Sequence[int]],
) -> dict[TopicPartition, Move]:
    """Of what goes on and of what is proposed, by partition."""
    found = {
        where: Move(frozenset(one.replicas) - frozenset(one.adding), frozenset(one.adding))
        for where, one in ongoing.items()
    }
    for where, replicas in proposed.items():
        sources = found[where].sources if where in found else frozenset(current[where])
        found[where] = Move(sources, frozenset(replicas) - sources)
    return found


def throttled_replicas(found: Mapping[TopicPartition, Move]) -> dict[str, tuple[str, str]]:
    """By topic the values of leader. and follower.replication.throttled.replicas."""
    leading: dict[str, set[str]] = {}
    following: dict[str, set[str]] = {}
    for (topic, partition), move in found.items():
        leading.setdefault(topic, set()).update(f"{partition}:{broker}" for broker in move.sources)
        following.setdefault(topic, set()).update(f"{partition}:{broker}" for broker in move.destinations)
    return {topic: (",".join(sorted(leading[topic])), ",".join(sorted(following[topic]))) for topic in leading}


def brokers_of(found: Mapping[TopicPartition, Move]) -> list[int]:
    """All that a move begins or ends at, sorted."""
    return sorted({broker for move in found.values() for broker in (*move.sources, *move.destinations)})


def listed(ongoing: Mapping[TopicPartition, Reassignment]) -> list[str]:
    """The lines of --list."""
    if not ongoing:
        return ["No partition reassignments found."]
    lines = ["Current partition reassignments:"]
    for where, one in sorted(ongoing.items()):
        line = f"{name_of(where)}: replicas: {joined(one.replicas)}."
        line += f" adding: {joined(one.adding)}." if one.adding else ""
        lines.append(line + (f" removing: {joined(one.removing)}." if one.removing else ""))
    return lines


def states(found: Mapping[TopicPartition, Found]) -> list[str]:
    """The lines of --verify about partitions."""
    lines = ["Status of partition reassignment:"]
    for where, one in sorted(found.items()):
        if not one.done:
            lines.append(f"Reassignment of partition {name_of(where)} is still in progress.")
        elif one.current == one.target:
            lines.append(f"Reassignment of partition {name_of(where)} is completed.")
        else:
            lines.append(
                f"There is no active reassignment of partition {name_of(where)}, but replica set is "
                f"{joined(one.current)} rather than {joined(one.target)}."
            )
    return lines
