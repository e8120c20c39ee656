"""Metadata and DescribeCluster: what is answered from the cache."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.runtime.metadata.cache import MetadataCache
from broker.runtime.metadata.handlers import MetadataHandlers
from broker.runtime.requests.leader_doubts import LeaderDoubts
from broker.runtime.requests.request import Request
from broker.wire.api import ApiKey, response_header_version
from broker.wire.errors import ErrorCode
from broker.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from broker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.support.fake_loop import FakeLoop
from tests.support.kept import kept_bytes
from tests.support.memory_node import FakeSlot
from tests.support.metadata_updates import EPOCH, NEW_ID, OLD_ID, partition, update

pytestmark = pytest.mark.guarantee("C8")


def ask(
    cache: MetadataCache,
    topics: list[str] | None,
    version: int = 9,
    create: Callable[[str], ErrorCode] | None = None,
    allow: bool = True,
) -> MetadataResponse:
    wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
    request = MetadataRequest(wanted if wanted is not None or version > 0 else [])
    if version >= 4:
        request.allow_auto_topic_creation = allow
    return MetadataResponse.decode(
        version, answer_of(MetadataHandlers(cache, create, FakeLoop()), request.encode(version), version)
    )


def answer_of(handlers: MetadataHandlers, body: bytes, version: int) -> memoryview:
    slot = FakeSlot()
    flexible = response_header_version(ApiKey.METADATA, version) == 1
    handlers.handle_metadata(Request(ApiKey.METADATA, version, 7, "", memoryview(bytearray(body)), slot, flexible))
    assert slot.response is not None
    return memoryview(slot.response)[5 if flexible else 4 :]


@pytest.mark.parametrize("version", range(13))
def test_metadata_returns_all_topics(cache: MetadataCache, version: int) -> None:
    answer = ask(cache, None, version)
    assert [topic.name for topic in answer.topics] == ["t"]
    assert answer.topics[0].partitions[0].leader_id == 1
    assert [(b.node_id, b.host, b.port) for b in answer.brokers] == [(1, "h1", 9001), (2, "h2", 9002)]


def test_responses_for_ever_other_topics_are_kept_up_to_a_bound(
    cache: MetadataCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.runtime.metadata.handlers._CACHED_BYTES_MAX", 100_000, raising=False)
    names = [f"t{number}" for number in range(20)]
    parts = [partition(1, [1, 2], index) for index in range(50)]
    assert cache.update(update(dict.fromkeys(names, parts))) is ErrorCode.NONE
    handlers = MetadataHandlers(cache, None, FakeLoop())

    def ask_on() -> None:
        for turned in range(20):
            wanted = [MetadataRequestTopic(name=name) for name in (*names[turned:], *names[:turned])]
            assert 30_000 < len(answer_of(handlers, MetadataRequest(wanted).encode(9), 9)) < 50_000

    assert kept_bytes(ask_on) < 200_000


@pytest.mark.parametrize("version", [10, 11, 12])
def test_topic_deleted_and_made_anew_is_listed_with_its_new_id(cache: MetadataCache, version: int) -> None:
    handlers = MetadataHandlers(cache, None, FakeLoop())
    body = MetadataRequest([MetadataRequestTopic(name="t")]).encode(version)

    def told() -> list[tuple[str, int]]:
        topics = MetadataResponse.decode(version, answer_of(handlers, body, version)).topics
        return [(topic.topic_id, part.leader_epoch) for topic in topics for part in topic.partitions]

    assert told() == [(OLD_ID, 3)]
    cache.update(update({"t": [partition(-2, [1, 2])]}))
    assert told() == []
    cache.update(update({"t": [partition(1, [1, 2], epoch=0)]}, topic_id=NEW_ID))
    assert told() == [(NEW_ID, 0)]


def ask_by_id(cache: MetadataCache, topics: list[MetadataRequestTopic], version: int = 12) -> MetadataResponse:
    handlers = MetadataHandlers(cache, lambda name: pytest.fail(f"{name} is to be made"), FakeLoop())
    return MetadataResponse.decode(version, answer_of(handlers, MetadataRequest(topics).encode(version), version))


def test_topics_are_listed_by_id_in_version_12(cache: MetadataCache) -> None:
    cache.update(update({"u": [partition(2, [2])]}, topic_id=NEW_ID))
    answer = ask_by_id(cache, [MetadataRequestTopic(OLD_ID, None), MetadataRequestTopic(NEW_ID, None)])
    assert [(topic.error_code, topic.name, topic.topic_id) for topic in answer.topics] == [
        (0, "t", OLD_ID),
        (0, "u", NEW_ID),
    ]
    assert answer.topics[1].partitions[0].leader_id == 2


def test_id_that_nobody_has_is_unknown_beside_those_that_are_known(cache: MetadataCache) -> None:
    answer = ask_by_id(cache, [MetadataRequestTopic(OLD_ID, None), MetadataRequestTopic(NEW_ID, None)])
    assert [(topic.error_code, topic.name, topic.topic_id) for topic in answer.topics] == [
        (ErrorCode.UNKNOWN_TOPIC_ID, None, NEW_ID),
        (0, "t", OLD_ID),
    ]
    assert len(answer.brokers) == 2


@pytest.mark.parametrize("end", ["deleted", "replaced", "passed over by a new controller"])
def test_id_of_a_topic_that_is_gone_is_unknown(cache: MetadataCache, end: str) -> None:
    if end == "deleted":
        cache.update(update({"t": [partition(-2, [1, 2])]}))
    elif end == "replaced":
        cache.update(update({"t": [partition(1, [1])]}, topic_id=NEW_ID))
    else:
        cache.update(update({"u": [partition(1, [1])]}, controller_epoch=2, topic_id=NEW_ID))
    (topic,) = ask_by_id(cache, [MetadataRequestTopic(OLD_ID, None)]).topics
    assert (topic.error_code, topic.name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)


def test_names_beside_ids_are_passed_over_as_by_kafka(cache: MetadataCache) -> None:
    answer = ask_by_id(cache, [MetadataRequestTopic(OLD_ID, None), MetadataRequestTopic(name="new")])
    assert [topic.name for topic in answer.topics] == ["t"]


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize("asked", [(OLD_ID, None), (OLD_ID, "t"), ("", None)])
def test_versions_10_and_11_take_no_topic_ids(
    cache: MetadataCache, asked: tuple[str, str | None], version: int
) -> None:
    answer = ask_by_id(cache, [MetadataRequestTopic(*asked), MetadataRequestTopic(name="t")], version)
    assert [(topic.error_code, topic.name, topic.topic_id) for topic in answer.topics] == [
        (ErrorCode.INVALID_REQUEST, asked[1] or "", asked[0]),
        (ErrorCode.INVALID_REQUEST, "t", ""),
    ]


def test_topic_without_name_and_id_is_refused(cache: MetadataCache) -> None:
    (topic,) = ask_by_id(cache, [MetadataRequestTopic("", None)]).topics
    assert (topic.error_code, topic.name) == (ErrorCode.INVALID_REQUEST, "")


# As Kafka's Java classes count them: AclEntry.supportedOperations, Utils.to32BitField.
ON_TOPIC, ON_CLUSTER, NOT_REQUESTED = 3576, 8096, -2147483648


def test_operations_are_sent_to_those_who_request_them_and_to_no_others(cache: MetadataCache) -> None:
    handlers = MetadataHandlers(cache, None, FakeLoop())
    told = []
    for _ in range(2):
        for of_cluster, of_topics in ((False, False), (True, False), (False, True), (True, True)):
            topics = [MetadataRequestTopic(name="t")]
            body = MetadataRequest(topics, False, of_cluster, of_topics).encode(8)
            answer = MetadataResponse.decode(8, answer_of(handlers, body, 8))
            told.append((answer.cluster_authorized_operations, answer.topics[0].topic_authorized_operations))
    assert told == 2 * [
        (NOT_REQUESTED, NOT_REQUESTED),
        (ON_CLUSTER, NOT_REQUESTED),
        (NOT_REQUESTED, ON_TOPIC),
        (ON_CLUSTER, ON_TOPIC),
    ]


def test_operations_on_topics_are_sent_also_for_unknown_names_and_not_for_unknown_ids(cache: MetadataCache) -> None:
    handlers = MetadataHandlers(cache, None, FakeLoop())
    for topics, expected in (
        ([MetadataRequestTopic(name="t"), MetadataRequestTopic(name="new")], [ON_TOPIC, ON_TOPIC]),
        ([MetadataRequestTopic(NEW_ID, None), MetadataRequestTopic(OLD_ID, None)], [NOT_REQUESTED, ON_TOPIC]),
    ):
        body = MetadataRequest(topics, False, False, True).encode(12)
        answer = MetadataResponse.decode(12, answer_of(handlers, body, 12))
        assert [topic.topic_authorized_operations for topic in answer.topics] == expected


@pytest.mark.parametrize(("asked", "told"), [(True, ON_CLUSTER), (False, NOT_REQUESTED)])
def test_description_of_the_cluster_has_operations_for_those_who_request_them(
    cache: MetadataCache, asked: bool, told: int
) -> None:
    slot, body = FakeSlot(), memoryview(bytearray(DescribeClusterRequest(asked).encode(0)))
    request = Request(ApiKey.DESCRIBE_CLUSTER, 0, 1, "", body, slot, True)
    MetadataHandlers(cache, None, FakeLoop()).handle_describe_cluster(request)
    assert slot.response is not None
    assert DescribeClusterResponse.decode(0, slot.response[5:]).cluster_authorized_operations == told


@pytest.mark.parametrize(
    ("endpoint", "error", "text"),
    [
        (1, ErrorCode.NONE, None),
        (
            2,
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        ),
        (0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, "Unsupported endpoint type 0"),
        (-5, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, "Unsupported endpoint type -5"),
    ],
)
def test_description_of_the_cluster_is_of_its_brokers(
    cache: MetadataCache, endpoint: int, error: ErrorCode, text: str | None
) -> None:
    slot, body = FakeSlot(), memoryview(bytearray(DescribeClusterRequest(False, endpoint).encode(1)))
    MetadataHandlers(cache, None, FakeLoop()).handle_describe_cluster(
        Request(ApiKey.DESCRIBE_CLUSTER, 1, 1, "", body, slot, True)
    )
    assert slot.response is not None
    response = DescribeClusterResponse.decode(1, slot.response[5:], exact=True)
    assert (response.error_code, response.error_message, response.endpoint_type) == (error, text, 1)
    assert bool(response.brokers) == (error is ErrorCode.NONE)


def test_metadata_of_no_topics_is_empty_from_version_1(cache: MetadataCache) -> None:
    assert ask(cache, [], 1).topics == []
    assert len(ask(cache, [], 0).topics) == 1


def test_dead_leader_is_listed_as_none(cache: MetadataCache) -> None:
    cache.update(update({}, live=(2,)))
    row = ask(cache, ["t"]).topics[0].partitions[0]
    assert (row.error_code, row.leader_id, row.leader_epoch) == (ErrorCode.LEADER_NOT_AVAILABLE, -1, 3)
    assert row.replica_nodes == [1, 2]


def test_version_0_filters_dead_replicas_with_an_error(cache: MetadataCache) -> None:
    cache.update(update({}, live=(1,)))
    row = ask(cache, ["t"], 0).topics[0].partitions[0]
    assert (row.error_code, row.replica_nodes) == (ErrorCode.REPLICA_NOT_AVAILABLE, [1])


def test_unknown_topic_is_created_only_where_both_allow(cache: MetadataCache) -> None:
    made: list[str] = []

    def create(name: str) -> ErrorCode:
        made.append(name)
        return ErrorCode.NONE

    assert ask(cache, ["new"], create=create).topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert ask(cache, ["new"], create=create, allow=False).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(cache, ["new"]).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(cache, ["a b"], create=create).topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert made == ["new"]


def test_encoded_response_is_not_kept_over_an_update(cache: MetadataCache) -> None:
    handlers = MetadataHandlers(cache, None, FakeLoop())
    body = MetadataRequest([MetadataRequestTopic(name="t")]).encode(9)
    before = bytes(answer_of(handlers, body, 9))
    assert bytes(answer_of(handlers, body, 9)) == before
    cache.update(update({"t": [partition(2, [1, 2], epoch=4)]}))
    after = MetadataResponse.decode(9, answer_of(handlers, body, 9))
    assert after.topics[0].partitions[0].leader_id == 2


@pytest.mark.parametrize("topics", [["t"], None])
def test_metadata_of_a_leader_in_doubt_waits_for_another(cache: MetadataCache, topics: list[str] | None) -> None:
    class Doubts:
        def doubted(self) -> dict[int, float]:
            return {1: 5_000.0}

    loop = FakeLoop()
    doubts = LeaderDoubts(loop, Doubts())
    cache.add_listener(doubts.check)
    cache.update(update({"t": [partition(1, [1, 2])], "u": [partition(2, [2, 1])]}))
    handlers = MetadataHandlers(cache, None, loop, doubts)

    def sent(names: list[str] | None) -> FakeSlot:
        wanted = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        body, slot = memoryview(bytearray(MetadataRequest(wanted).encode(9))), FakeSlot()
        handlers.handle_metadata(Request(ApiKey.METADATA, 9, 7, "", body, slot, True))
        return slot

    assert sent(["u"]).done
    waiting = sent(topics)
    assert not waiting.done
    cache.update(update({"t": [partition(2, [1, 2], epoch=4)]}))
    assert waiting.response is not None
    leaders = {
        topic.name: topic.partitions[0].leader_id for topic in MetadataResponse.decode(9, waiting.response[5:]).topics
    }
    assert leaders["t"] == 2


def test_brokers_whose_process_is_gone_are_listed_only_where_an_office_is_named(cache: MetadataCache) -> None:
    """Until their session ends they are registered."""
    gone: set[int] = set()
    cache.update(update({"t": [partition(1, [1, 2])], "u": [partition(2, [2, 1])]}))
    handlers = MetadataHandlers(cache, None, FakeLoop(), gone=lambda: frozenset(gone))

    def listed(*names: str) -> set[int]:
        request = MetadataRequest([MetadataRequestTopic(name=name) for name in names])
        return {
            broker.node_id for broker in MetadataResponse.decode(9, answer_of(handlers, request.encode(9), 9)).brokers
        }

    assert listed("t") == {1, 2}
    gone.add(2)
    assert listed("t") == {1}
    assert listed("u") == {1, 2}, "it leads"
    gone.add(1)
    assert cache.controller_id == 1
    assert listed("u") == {1, 2}, "it controls"
    gone.clear()
    assert listed("t") == {1, 2}, "what was encoded meanwhile is not kept"


@pytest.mark.parametrize("successor", [False, True])
def test_broker_that_led_a_topic_until_a_moment_ago_is_listed_with_it(cache: MetadataCache, successor: bool) -> None:
    """librdkafka forgets the partitions of a broker that a response leaves out, new leader or not."""
    cache.update(update({"t": [partition(2, [2, 1])], "u": [partition(1, [2, 1])]}))
    loop = FakeLoop()
    handlers = MetadataHandlers(cache, None, loop, gone=lambda: frozenset({2}))

    def listed(names: list[str] | None) -> set[int]:
        request = MetadataRequest(None if names is None else [MetadataRequestTopic(name=name) for name in names])
        return {
            broker.node_id for broker in MetadataResponse.decode(9, answer_of(handlers, request.encode(9), 9)).brokers
        }

    elected = {"t": [partition(1, [2, 1], epoch=4)], "u": [partition(1, [2, 1])]}
    if successor:
        cache.update(update(elected, controller_epoch=2))
    else:
        cache.update(update({"t": elected["t"]}))
    assert (listed(["t"]), listed(["t", "u"]), listed(None)) == ({1, 2}, {1, 2}, {1, 2})
    assert listed(["u"]) == {1}, "it did not lead this one"
    assert listed([]) == {1}
    loop.advance(2999)
    assert listed(["t"]) == {1, 2}
    loop.advance(1)
    assert listed(["t"]) == listed(None) == {1}


def test_metadata_waits_for_the_controllers_first_update() -> None:
    cache = MetadataCache("cluster", "PLAINTEXT", lambda: EPOCH, lambda topic: {}, lambda topic: None)
    loop = FakeLoop()
    handlers = MetadataHandlers(cache, None, loop)
    slots = [FakeSlot(), FakeSlot()]
    for slot in slots:
        body = memoryview(bytearray(MetadataRequest(None).encode(9)))
        handlers.handle_metadata(Request(ApiKey.METADATA, 9, 7, "", body, slot, True))
    assert not any(slot.done for slot in slots)
    cache.update(update({}))
    assert all(slot.done for slot in slots)


def test_metadata_without_any_controller_gets_a_response_in_the_end() -> None:
    cache = MetadataCache("cluster", "PLAINTEXT", lambda: EPOCH, lambda topic: {}, lambda topic: None)
    loop, slot = FakeLoop(), FakeSlot()
    body = memoryview(bytearray(MetadataRequest(None).encode(9)))
    MetadataHandlers(cache, None, loop).handle_metadata(Request(ApiKey.METADATA, 9, 7, "", body, slot, True))
    loop.run_due(loop.now + 60_000)
    assert slot.done
