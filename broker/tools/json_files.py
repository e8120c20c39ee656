"""JSON files that tools are given: partitions to elect leaders for, topics to move, replicas to have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from broker.tools.client.admin import TopicPartition
from broker.tools.client.errors import ToolError

ANY_LOG_DIR = "any"
_KINDS = {str: "string", int: "32-bit whole number", list: "list"}


class Placement(NamedTuple):
    """A partition's replicas, and the log dir of each, `any` for whichever the broker chooses."""

    where: TopicPartition
    replicas: list[int]
    log_dirs: list[str]


def load(path: str) -> Any:
    """What a JSON file holds. Raises ToolError."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except RecursionError:
        raise ToolError(f"{path}: brackets are nested too deeply") from None
    except (OSError, ValueError) as error:
        raise ToolError(f"{path}: {error}") from None


def _entries(data: Any, name: str, *, versioned: bool) -> list[dict[str, Any]]:
    if not isinstance(data, dict):
        raise ToolError(f"The input is not a JSON object with {name!r}")
    version = data.get("version", 1)
    if versioned and version != 1:
        raise ToolError(f"Not supported version field value {version}")
    found = data.get(name, [])
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ToolError(f"{name!r} must be a list of objects, found {json.dumps(found)[:100]}")
    return found


def _field(entry: dict[str, Any], name: str, kind: type) -> Any:
    value = entry.get(name)
    if not _is_a(kind, value):
        raise ToolError(f"{name!r} must be a {_KINDS[kind]}, found {json.dumps(value)} in {json.dumps(entry)}")
    return value


def _is_a(kind: type, value: object) -> bool:
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and -(1 << 31) <= value < 1 << 31
    return isinstance(value, kind)


def _list(entry: dict[str, Any], name: str, kind: type) -> Any:
    values = _field(entry, name, list)
    if not all(_is_a(kind, value) for value in values):
        raise ToolError(f"{name!r} must be a list of {_KINDS[kind]}s, found {json.dumps(values)}")
    return values


def election_partitions(data: Any) -> list[TopicPartition]:
    """`{"partitions": [{"topic": "t", "partition": 0}, …]}`. Raises ToolError."""
    if not isinstance(data, dict) or "partitions" not in data:
        raise ToolError('Replica election data is missing "partitions" field')
    entries = _entries(data, "partitions", versioned=False)
    found = [(_field(entry, "topic", str), _field(entry, "partition", int)) for entry in entries]
    if doubled := sorted({one for one in found if found.count(one) > 1}):
        names = ",".join(f"{topic}-{partition}" for topic, partition in doubled)
        raise ToolError(f"Replica election data contains duplicate partitions: {names}")
    return found


def topics_to_move(data: Any) -> list[str]:
    """`{"version": 1, "topics": [{"topic": "t"}, …]}`. Raises ToolError."""
    found = [_field(entry, "topic", str) for entry in _entries(data, "topics", versioned=True)]
    if doubled := sorted({name for name in found if found.count(name) > 1}):
        raise ToolError(f"List of topics to reassign contains duplicate entries: {doubled}")
    return found


def placements(data: Any) -> list[Placement]:
    """`{"version": 1, "partitions": [{"topic", "partition", "replicas", "log_dirs"}, …]}`. Raises ToolError."""
    found = []
    for entry in _entries(data, "partitions", versioned=True):
        where = (_field(entry, "topic", str), _field(entry, "partition", int))
        replicas = _list(entry, "replicas", int)
        log_dirs = _list(entry, "log_dirs", str) if "log_dirs" in entry else [ANY_LOG_DIR] * len(replicas)
        if len(replicas) != len(log_dirs):
            raise ToolError(
                f"Size of replicas list {replicas} is different from size of log dirs list {log_dirs} "
                f"for partition {where[0]}-{where[1]}"
            )
        found.append(Placement(where, replicas, log_dirs))
    return found
