"""Random values for every message of the wire, drawn from the declarations themselves."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from typing import Any

from hypothesis import strategies as st

import broker.wire.messages
from broker.wire.api import SUPPORTED
from broker.wire.fields import SPEC, Spec
from broker.wire.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    ForgottenPartition,
)
from broker.wire.messages.produce import ProducePartition, ProducePartitionResult, ProduceRequest
from broker.wire.primitives import topic_id_from_bytes
from broker.wire.schema import Message

INT8 = st.integers(-(2**7), 2**7 - 1)
INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=140)
TOPIC = st.text("abcXYZ019._-", min_size=1, max_size=12)
TOPIC_ID = st.binary(min_size=16, max_size=16).map(topic_id_from_bytes)
_PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int8": INT8,
    "int16": INT16,
    "int32": INT32,
    "int64": INT64,
    "float64": st.floats(allow_nan=False),
    "string": TEXT,
    "bytes": st.binary(max_size=300),
    "uuid": TOPIC_ID,
}


def message_classes() -> list[type[Message]]:
    """Every message class that the engine serves, by name."""
    found: dict[str, type[Message]] = {}
    for module in pkgutil.iter_modules(broker.wire.messages.__path__):
        for value in vars(importlib.import_module(f"broker.wire.messages.{module.name}")).values():
            if isinstance(value, type) and issubclass(value, Message) and value is not Message:
                found[value.__name__] = value
    return [found[name] for name in sorted(found)]


def message_versions() -> list[tuple[type[Message], int]]:
    """(class, version) for every version that is offered."""
    return [
        (cls, version)
        for cls in message_classes()
        for version in range(SUPPORTED[cls.API].first, SUPPORTED[cls.API].last + 1)
    ]


def instances(cls: type[Any], version: int) -> st.SearchStrategy[Any]:
    """Objects whose fields are random where the version has them and at their default elsewhere."""
    fields: dict[str, st.SearchStrategy[Any]] = {}
    for field in dataclasses.fields(cls):
        spec: Spec = field.metadata[SPEC]
        if version in spec.versions:
            fields[field.name] = _values(spec, version)
    return st.builds(cls, **fields)


def _values(spec: Spec, version: int) -> st.SearchStrategy[Any]:
    one = instances(spec.element, version) if spec.element is not None else _PRIMITIVES[spec.kind]
    value: st.SearchStrategy[Any] = st.lists(one, max_size=3) if spec.is_array else one
    return st.none() | value if version in spec.nullable else value


def _named(version: int) -> dict[str, st.SearchStrategy[str]]:
    """Topic by name or by id; every field is given, because `builds` would fill in what it could infer."""
    if version < 13:
        return {"topic": TOPIC, "topic_id": st.just("")}
    return {"topic": st.just(""), "topic_id": TOPIC_ID}


def produce_requests() -> st.SearchStrategy[ProduceRequest]:
    partition = st.builds(
        ProducePartition, TOPIC, INT32, st.none() | st.binary(max_size=300).map(lambda data: memoryview(data))
    )
    return st.builds(ProduceRequest, st.none() | TEXT, INT16, INT32, st.lists(partition, max_size=4))


def produce_results(version: int) -> st.SearchStrategy[list[ProducePartitionResult]]:
    return st.lists(
        st.builds(
            ProducePartitionResult,
            topic=TOPIC,
            partition=INT32,
            error=INT16,
            base_offset=INT64,
            log_append_time=INT64,
            log_start_offset=INT64 if version >= 5 else st.just(-1),
            error_message=st.none() | TEXT if version >= 8 else st.none(),
        ),
        max_size=4,
    )


def fetch_requests(version: int) -> st.SearchStrategy[FetchRequest]:
    named = _named(version)
    epochs = INT32 if version >= 12 else st.just(-1)
    partition = st.builds(
        FetchPartition,
        **named,
        partition=INT32,
        current_leader_epoch=INT32 if version >= 9 else st.just(-1),
        fetch_offset=INT64,
        last_fetched_epoch=epochs,
        log_start_offset=INT64 if version >= 5 else st.just(-1),
        max_bytes=INT32,
    )
    sessions = version >= 7
    return st.builds(
        FetchRequest,
        replica_id=INT32,
        replica_epoch=INT64 if version >= 15 else st.just(-1),
        max_wait_ms=INT32,
        min_bytes=INT32,
        max_bytes=INT32,
        isolation_level=INT8,
        session_id=INT32 if sessions else st.just(0),
        session_epoch=INT32 if sessions else st.just(-1),
        partitions=st.lists(partition, max_size=5),
        forgotten=st.lists(st.builds(ForgottenPartition, **named, partition=INT32), max_size=4)
        if sessions
        else st.just([]),
        rack_id=TEXT if version >= 11 else st.just(""),
        cluster_id=st.none() | TEXT if version >= 12 else st.none(),
    )


def fetch_results(version: int) -> st.SearchStrategy[list[FetchPartitionResult]]:
    named = _named(version)
    tagged: dict[str, st.SearchStrategy[Any]] = {}
    if version >= 12:
        pairs = st.just((-1, -1)) | st.tuples(st.integers(0, 2**31 - 1), INT32)
        tagged = {"diverging": pairs, "leader": pairs, "snapshot": pairs}

    def build(
        diverging: tuple[int, int] = (-1, -1),
        leader: tuple[int, int] = (-1, -1),
        snapshot: tuple[int, int] = (-1, -1),
        **plain: Any,
    ) -> FetchPartitionResult:
        return FetchPartitionResult(
            **plain,
            diverging_epoch=diverging[0],
            diverging_end_offset=diverging[1],
            current_leader_id=leader[0],
            current_leader_epoch=leader[1],
            snapshot_end_offset=snapshot[0],
            snapshot_epoch=snapshot[1],
        )

    return st.lists(
        st.builds(
            build,
            **named,
            **tagged,
            partition=INT32,
            error=INT16,
            high_watermark=INT64,
            last_stable_offset=INT64,
            log_start_offset=INT64 if version >= 5 else st.just(-1),
            aborted=st.none() | st.lists(st.builds(AbortedTransaction, INT64, INT64), max_size=3),
            preferred_read_replica=INT32 if version >= 11 else st.just(-1),
            records=st.just([]) | st.binary(min_size=1, max_size=300).map(lambda data: [memoryview(data)]),
        ),
        max_size=4,
    )
