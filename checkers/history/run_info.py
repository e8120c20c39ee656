"""What `run.json` says of a run: the part of it that a verdict depends on.

Knows nothing of Spark. A run.json that is missing or unreadable is an error of the caller's making, not a verdict.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checkers.history.early_end import EarlyEnd, early_end_of
from checkers.history.faults import SKEWS_CLOCK
from checkers.history.retention import (
    START_WRITTEN_NS,
    TOMBSTONES_MS,
    Retention,
    is_compacted,
    keeps_all,
    retention_of,
    start_written_ns,
    tombstones_kept_ms,
)
from checkers.history.schema import HISTORY_VERSION

RECORD_BYTES_MAX = 1_001_000
"""Bytes of one record with the largest value that a run file allows."""
PARTITIONS_MAX = 1_000_000
_INT64 = 1 << 63
_OVERHEAD_BYTES = 61 + 28
"""Of a batch of its own: its header, and what a record has beside its value (DefaultRecordBatch, DefaultRecord)."""
_LABEL_BYTES = 19 + 16 + 8
"""Of a value beside the topic's name: its number, its hash, the partition's number and what parts them."""


class UnreadableRun(Exception):
    """The run folder cannot be judged at all; the text names the file and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """A node of the run. monotonic_offset_ns: its CLOCK_MONOTONIC minus the harness's."""

    name: str
    role: str
    broker_id: int | None
    monotonic_offset_ns: int


@dataclass(frozen=True, slots=True)
class RunInfo:
    """partitions: names of all partitions of the run's topic. checks: requirements that the run file sets.

    min_insync_replicas: the least that any broker applies. unclean: some broker may elect from outside the ISR.
    fault_kinds: those that the run file asks for. skews_clocks: whether one of them can set a clock wrong; true where
    run.json does not say. request_timeout_ms: how long a client waits for an answer.
    record_bytes: what one record adds to a log at most. checkers: names of those that the workload and the system of
    the run have; None: all. lines: how many its history has, where the run says so. compacted: whether its topic is.
    tombstones_ms: how long a cleaner leaves tombstones to who is reading. start_written_ns: within how long brokers
    write down that a request raised a log start. imported: whether its history was recorded by another tool, of clients
    alone. recorded: digests of its history and each node's evidence, where the run has them. ended_early: what its load
    ended by, where that was a finding. remade: topics that its clients deleted and made anew, without settings;
    remade_keep_all: whether these keep their records. truncation: by what each broker of highwater's was set to cut its
    log. lacking: what its run.json does not say, though without it rules are as good as left out.
    """

    name: str
    topic: str
    partitions: tuple[str, ...]
    replication_factor: int | None
    min_insync_replicas: int
    unclean: bool
    system_kind: str
    event_log: bool
    retention: Retention
    session_timeout_ms: int
    workload_acks: str
    nodes: tuple[NodeInfo, ...]
    origin_monotonic_ns: int
    origin_wall_ns: int
    scripted: bool
    aborted: str | None
    finished: bool
    checks: Mapping[str, int] = field(default_factory=dict)
    fault_kinds: tuple[str, ...] = ()
    skews_clocks: bool = True
    request_timeout_ms: int = 3000
    record_bytes: int = RECORD_BYTES_MAX
    checkers: frozenset[str] | None = None
    lines: int | None = None
    compacted: bool = False
    tombstones_ms: int = TOMBSTONES_MS
    start_written_ns: int = START_WRITTEN_NS
    imported: bool = False
    recorded: Mapping[str, str] = field(default_factory=dict)
    ended_early: EarlyEnd | None = None
    remade: tuple[str, ...] = ()
    remade_keep_all: bool = True
    truncation: Mapping[str, str] = field(default_factory=dict)
    lacking: tuple[str, ...] = ()

    def wants(self, checker: str) -> bool:
        """Whether this checker has a verdict in the run's results."""
        return self.checkers is None or checker in self.checkers

    @property
    def brokers(self) -> tuple[NodeInfo, ...]:
        return tuple(node for node in self.nodes if node.role == "broker")

    @property
    def zookeepers(self) -> tuple[NodeInfo, ...]:
        return tuple(node for node in self.nodes if node.role == "zookeeper")


def load_run_info(run_dir: Path) -> RunInfo:
    """Read run.json; errors name the file and the key."""
    path = run_dir / "run.json"
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UnreadableRun(f"{path}: not there; a run folder holds run.json and history.jsonl") from None
    except (OSError, ValueError) as error:
        raise UnreadableRun(f"{path}: cannot be read: {error}") from error
    except RecursionError:
        raise UnreadableRun(f"{path}: cannot be read: brackets are nested too deeply") from None
    if not isinstance(raw, dict):
        raise UnreadableRun(f"{path}: holds {type(raw).__name__}, should be an object")
    if raw.get("schema") != HISTORY_VERSION:
        raise UnreadableRun(f"{path}: schema is {raw.get('schema')!r}, these checkers read {HISTORY_VERSION}")
    try:
        _check_numbers(raw)
        return _parse(raw)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UnreadableRun(f"{path}: {type(error).__name__}: {error}; see docs/history-format.md") from error


def _check_numbers(value: object) -> None:
    """Raises OverflowError for a whole number that is none of 64 bits."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            _check_numbers(one)
    elif isinstance(value, int) and not -_INT64 <= value < _INT64:
        raise OverflowError(f"{value} is no whole number of 64 bits")


def _parse(raw: Mapping[str, Any]) -> RunInfo:
    topic = raw["topic"]
    system = raw.get("system") or {}
    of_all: Mapping[str, Any] = system.get("settings") or {}
    brokers = [of_all, *({**of_all, **own} for own in (system.get("broker") or {}).values())]
    config: Mapping[str, Any] = topic.get("config") or {}
    return RunInfo(
        name=str(raw.get("name", "")),
        topic=str(topic["name"]),
        partitions=tuple(f"{topic['name']}-{number}" for number in range(_partitions(topic))),
        replication_factor=_optional_int(topic.get("replication_factor")),
        min_insync_replicas=_min_isr(int(topic.get("min_insync_replicas") or 1), brokers, config),
        unclean=bool(topic.get("unclean_leader_election") or False) or _unclean_by_broker(brokers, config),
        system_kind=str(system.get("kind", "highwater")),
        event_log=bool(system.get("event_log", True)),
        retention=retention_of(brokers, config),
        session_timeout_ms=_session_timeout_ms(system),
        workload_acks=str((raw.get("workload") or {}).get("acks", "all")),
        nodes=tuple(_node(node) for node in raw.get("nodes") or ()),
        origin_monotonic_ns=int(raw.get("origin_monotonic_ns") or 0),
        origin_wall_ns=int(raw.get("origin_wall_ns") or 0),
        scripted=bool(raw.get("scripted") or False),
        aborted=None if raw.get("aborted") is None else str(raw["aborted"]),
        finished=bool(raw.get("finished") or False),
        request_timeout_ms=int((raw.get("workload") or {}).get("request_timeout_ms") or 3000),
        fault_kinds=tuple(str(kind) for kind in (raw.get("faults") or {}).get("kinds") or ()),
        skews_clocks=_skews_clocks(raw.get("fault_kinds")),
        checks={str(key): int(value) for key, value in (raw.get("checks") or {}).items()},
        record_bytes=_record_bytes(raw.get("workload") or {}, str(topic["name"])),
        checkers=None if raw.get("checkers") is None else frozenset(str(name) for name in raw["checkers"]),
        lines=None if raw.get("lines") is None else int(raw["lines"]),
        compacted=is_compacted(brokers, config),
        tombstones_ms=tombstones_kept_ms(brokers, config),
        start_written_ns=start_written_ns(str(system.get("kind", "highwater")), brokers),
        imported=bool(raw.get("imported")),
        ended_early=early_end_of(raw.get("ended_early")),
        remade=tuple(str(topic) for topic in raw.get("remade_topics") or ()),
        remade_keep_all=keeps_all(brokers),
        truncation=_truncation(raw, system),
        recorded={str(name): str(digest) for name, digest in (raw.get("recorded") or {}).items()},
        lacking=() if raw.get("imported") else tuple(_lacking(raw)),
    )


def _lacking(raw: Mapping[str, Any]) -> Iterator[str]:
    """Fields without which times of nodes are no times of the run, and less is asked of replicas."""
    for place, names in (
        ("", ("origin_monotonic_ns", "origin_wall_ns")),
        ("topic", ("replication_factor", "min_insync_replicas")),
    ):
        said = raw[place] if place else raw
        yield from (f"{place}.{name}".lstrip(".") for name in names if said.get(name) is None)
    for node in raw.get("nodes") or ():
        if node.get("role", "broker") == "broker" and node.get("broker_id") is None:
            yield f"broker_id of {node['name']}"


def _partitions(topic: Mapping[str, Any]) -> int:
    """Without a partition nothing would be missed. Raises ValueError."""
    count = int(topic["partitions"])
    if not 1 <= count <= PARTITIONS_MAX:
        raise ValueError(f"topic.partitions is {count}, should be 1 to {PARTITIONS_MAX}")
    return count


def _skews_clocks(kinds: Mapping[str, Mapping[str, Any]] | None) -> bool:
    return kinds is None or any(SKEWS_CLOCK in kind["effects"] for kind in kinds.values())


def _record_bytes(workload: Mapping[str, Any], topic: str) -> int:
    """A value is padded to what the run file says, where it is shorter."""
    record_bytes = _optional_int(workload.get("record_bytes"))
    return RECORD_BYTES_MAX if record_bytes is None else max(record_bytes, _LABEL_BYTES + len(topic)) + _OVERHEAD_BYTES


def _truncation(raw: Mapping[str, Any], system: Mapping[str, Any]) -> dict[str, str]:
    """By node; nothing of other systems."""
    if system.get("kind", "highwater") != "highwater":
        return {}
    of_all, own, key = system.get("settings") or {}, system.get("broker") or {}, "replica.truncation"
    brokers = [node for node in raw.get("nodes") or () if node.get("role", "broker") == "broker"]
    of_each = {str(node["name"]): own.get(str(node.get("broker_id"))) or {} for node in brokers}
    return {name: str({**of_all, **settings}.get(key, "leader-epoch")) for name, settings in of_each.items()}


def _min_isr(effective: int, brokers: Sequence[Mapping[str, Any]], config: Mapping[str, Any]) -> int:
    """A leader whose own setting is lower acknowledges with fewer, unless the topic says how many."""
    key = "min.insync.replicas"
    return effective if key in config else min([effective, *(int(own[key]) for own in brokers if key in own)])


def _unclean_by_broker(brokers: Sequence[Mapping[str, Any]], config: Mapping[str, Any]) -> bool:
    """A controller whose own setting allows it elects from outside the ISR, unless the topic forbids it."""
    key = "unclean.leader.election.enable"
    return key not in config and any(str(own.get(key, "false")).lower() == "true" for own in brokers)


def _session_timeout_ms(system: Mapping[str, Any]) -> int:
    """The longest of any broker."""
    key = "zookeeper.session.timeout.ms"
    of_all = int((system.get("settings") or {}).get(key, 18_000))
    return max([of_all, *(int(own.get(key, of_all)) for own in (system.get("broker") or {}).values())])


def _node(raw: Mapping[str, Any]) -> NodeInfo:
    return NodeInfo(
        name=str(raw["name"]),
        role=str(raw.get("role", "broker")),
        broker_id=_optional_int(raw.get("broker_id")),
        monotonic_offset_ns=int(raw.get("monotonic_offset_ns") or 0),
    )


def _optional_int(value: object) -> int | None:
    return None if value is None else int(str(value))
