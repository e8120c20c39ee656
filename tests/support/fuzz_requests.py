"""Whole valid requests of every API and version that is served, with random values: from the messages' declarations.

Produce and Fetch, whose codecs are by hand, have builders here. `learn` takes from an answer what later requests need.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Collection
from functools import cache
from random import Random
from typing import Any, Final, NamedTuple

from broker.wire.api import SUPPORTED, ApiKey
from broker.wire.fields import SPEC, Spec
from broker.wire.headers import decode_response_header, encode_request_header
from broker.wire.messages import fetch, produce
from broker.wire.messages.init_producer_id import InitProducerIdResponse
from broker.wire.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from broker.wire.messages.metadata import MetadataResponse
from broker.wire.primitives import MalformedFrame
from broker.wire.schema import Message
from tests.support.fuzz_values import CLIENT_IDS, Values
from tests.support.wire_values import message_classes

_ELEMENTS: Final = (0, 1, 1, 1, 2, 3)
_FEW_ELEMENTS: Final = (0, 0, 0, 1)
_FEW: Final = ("assignments", "configs")
"""Fields that exclude others, or that a broker takes only if all of it is right."""
UPSETTING: Final = frozenset(
    {
        ApiKey.DELETE_TOPICS,
        ApiKey.DELETE_RECORDS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_PARTITION,
        ApiKey.ELECT_LEADERS,
    }
)
"""What they ask for may be done, and whoever else uses the topic sees it: they name few topics."""
_CONFIG_STRUCTS: Final = ("CreatableTopicConfig", "AlterableConfig", "IncrementallyAlterableConfig")


class Made(NamedTuple):
    """frame: with its length in front; used: what some fields hold, by name."""

    api: ApiKey
    version: int
    correlation_id: int
    frame: bytes
    used: dict[str, int | str]


class Requests:
    """An endless stream of valid requests, by a seed.

    apis: which; weights: how often one comes, against 1 for the others.
    """

    def __init__(self, rng: Random, values: Values, apis: Collection[ApiKey], weights: dict[ApiKey, float]) -> None:
        self._rng = rng
        self._values = values
        self._apis = sorted(apis)
        self._weights = [weights.get(api, 1.0) for api in self._apis]
        self._ids = 0

    def make(self) -> Made:
        """The next one."""
        (api,) = self._rng.choices(self._apis, self._weights)
        versions = SUPPORTED[api]
        return self.make_of(api, self._rng.randint(versions.first, versions.last))

    def make_of(self, api: ApiKey, version: int) -> Made:
        self._ids += 1
        self._values.begin()
        self._values.all_names = api not in UPSETTING
        header = encode_request_header(api, version, self._ids, self._rng.choice(CLIENT_IDS))
        body = self._body(api, version)
        return Made(
            api, version, self._ids, struct.pack(">i", len(header) + len(body)) + header + body, self._values.used
        )

    def _body(self, api: ApiKey, version: int) -> bytes:
        if api is ApiKey.PRODUCE:
            return self._produce(version)
        if api is ApiKey.FETCH:
            return self._fetch(version)
        request = _request_classes()[api]
        message: Message = self._instance(request, version)
        return message.encode(version)

    def _instance(self, cls: type[Any], version: int) -> Any:
        if cls.__name__ in _CONFIG_STRUCTS:
            made = cls(*self._values.config())
            if "config_operation" in {field.name for field in dataclasses.fields(cls)}:
                made = dataclasses.replace(made, config_operation=self._values.number("config_operation", "int8"))
            return made
        values: dict[str, object] = {}
        if cls is JoinGroupRequestProtocol:
            return cls(self._values.text("protocol"), self._values.blob())
        for name, spec in _specs(cls):
            if version in spec.versions:
                values[name] = self._value(name, spec, version)
        return cls(**values)

    def _value(self, name: str, spec: Spec, version: int) -> object:
        if version in spec.nullable and self._rng.random() < 0.15:
            return None
        if not spec.is_array:
            return self._single(name, spec, version)
        return [
            self._single(name, spec, version)
            for _ in range(self._rng.choice(_FEW_ELEMENTS if name in _FEW else _ELEMENTS))
        ]

    def _single(self, name: str, spec: Spec, version: int) -> object:
        if spec.element is not None:
            return self._instance(spec.element, version)
        match spec.kind:
            case "string":
                return self._values.text(name)
            case "bytes":
                return self._values.blob()
            case "uuid":
                return self._values.uuid()
            case "boolean":
                return self._rng.random() < 0.5
            case "float64":
                return self._rng.choice((0.0, 1.5, -1.0, float("inf"), float("nan")))
            case kind:
                return self._values.number(name, kind)

    def _produce(self, version: int) -> bytes:
        values = self._values
        partitions = [
            produce.ProducePartition(
                values.text("topic"), values.number("partition", "int32"), memoryview(bytearray(values.records()))
            )
            for _ in range(self._rng.choice((1, 1, 1, 2, 0)))
        ]
        transactional_id = values.text("transactional_id") if self._rng.random() < 0.3 else None
        return produce.encode_request(
            version,
            produce.ProduceRequest(
                transactional_id, values.number("acks", "int16"), values.number("timeout_ms", "int32"), partitions
            ),
        )

    def _fetch(self, version: int) -> bytes:
        values = self._values
        by_id = version >= 13
        partitions = [
            fetch.FetchPartition(
                topic="" if by_id else values.text("topic"),
                topic_id=values.uuid() if by_id else "",
                partition=values.number("partition", "int32"),
                current_leader_epoch=values.number("current_leader_epoch", "int32") if version >= 9 else -1,
                fetch_offset=values.number("fetch_offset", "int64"),
                last_fetched_epoch=values.number("leader_epoch", "int32") if version >= 12 else -1,
                max_bytes=values.number("max_bytes", "int32"),
            )
            for _ in range(self._rng.choice((0, 1, 1, 2)))
        ]
        sessions = version >= 7
        return fetch.encode_request(
            version,
            fetch.FetchRequest(
                replica_id=values.number("replica_id", "int32"),
                max_wait_ms=values.number("max_wait_ms", "int32"),
                min_bytes=values.number("min_bytes", "int32"),
                max_bytes=values.number("max_bytes", "int32"),
                isolation_level=values.number("isolation_level", "int8"),
                session_id=values.number("session_id", "int32") if sessions else 0,
                session_epoch=self._rng.choice((0, -1, 1, 2)) if sessions else -1,
                partitions=partitions,
                rack_id=values.text("rack") if version >= 11 else "",
            ),
        )

    def learn(self, made: Made, answer: bytes) -> None:
        """answer: a response without its length. Raises AssertionError for one that cannot be read."""
        decoder = _LEARNERS.get(made.api)
        if decoder is None:
            return
        try:
            start = decode_response_header(made.api, made.version, memoryview(answer)).body_start
            decoder(self._values, made, answer[start:])
        except (MalformedFrame, struct.error, ValueError, IndexError):
            raise AssertionError(f"{made.api.name} v{made.version} has an answer that cannot be read") from None


@cache
def _request_classes() -> dict[ApiKey, type[Message]]:
    return {cls.API: cls for cls in message_classes() if cls.__name__.endswith("Request")}


_known_specs: dict[type[Any], list[tuple[str, Spec]]] = {}


def _specs(cls: type[Any]) -> list[tuple[str, Spec]]:
    """A message's fields, in their order."""
    specs = _known_specs.get(cls)
    if specs is None:
        specs = _known_specs[cls] = [(field.name, field.metadata[SPEC]) for field in dataclasses.fields(cls)]
    return specs


def _learn_member(values: Values, made: Made, body: bytes) -> None:
    found = JoinGroupResponse.decode(made.version, body)
    if found.member_id:
        group = str(made.used["group_id"])
        values.learn("member", group_id=group, member_id=found.member_id, generation_id=max(found.generation_id, 0))


def _learn_producer(values: Values, made: Made, body: bytes) -> None:
    found = InitProducerIdResponse.decode(made.version, body)
    if found.producer_id >= 0:
        transactional_id = made.used.get("transactional_id", "")
        values.learn(
            "producer",
            transactional_id=transactional_id,
            producer_id=found.producer_id,
            producer_epoch=found.producer_epoch,
        )


def _learn_session(values: Values, made: Made, body: bytes) -> None:
    if made.version >= 7:
        # Throttle time, error, session id.
        values.learn("session", session_id=struct.unpack_from(">ihi", body)[2])


def _learn_topic_ids(values: Values, made: Made, body: bytes) -> None:
    if made.version >= 10:
        for topic in MetadataResponse.decode(made.version, body).topics:
            if topic.topic_id:
                values.learn("topic", topic_id=topic.topic_id)


_LEARNERS: Final[dict[ApiKey, Callable[[Values, Made, bytes], None]]] = {
    ApiKey.JOIN_GROUP: _learn_member,
    ApiKey.INIT_PRODUCER_ID: _learn_producer,
    ApiKey.FETCH: _learn_session,
    ApiKey.METADATA: _learn_topic_ids,
}
