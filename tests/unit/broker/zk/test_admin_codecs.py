"""What tools write into `/admin`, and what must not pass for it."""

from __future__ import annotations

import json

import pytest

from broker.model.ids import TopicPartition
from broker.zk import admin_codecs, codecs, paths

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_requests_of_kafkas_tools_decode() -> None:
    elections = b'{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"t","partition":1}]}'
    assert admin_codecs.decode_preferred_election(elections) == [T0, T1]
    moves = b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,1],"log_dirs":["any","any"]}]}'
    assert admin_codecs.decode_reassignment(moves) == {T0: (2, 1)}


def test_what_is_left_of_a_request_round_trips() -> None:
    assert admin_codecs.decode_reassignment(admin_codecs.encode_reassignment({T1: (3,), T0: (2, 1)})) == {
        T0: (2, 1),
        T1: (3,),
    }
    assert admin_codecs.decode_preferred_election(admin_codecs.encode_preferred_election([T1])) == [T1]


def test_deletion_by_name_is_written_as_kafka_does_and_one_by_id_says_which() -> None:
    assert admin_codecs.encode_deletion(None) == b""
    topic_id = "B" * 21 + "A"
    assert json.loads(admin_codecs.encode_deletion(topic_id)) == {"version": 1, "topic_id": topic_id}
    for asked in (None, topic_id):
        assert admin_codecs.decode_deletion(admin_codecs.encode_deletion(asked)) == asked


@pytest.mark.parametrize("data", [b"", b"null", b"1", b"{", b"{}", b"[1]", b"\xff", b'{"version":1,"topic_id":null}'])
def test_mark_that_names_no_id_asks_by_name(data: bytes) -> None:
    assert admin_codecs.decode_deletion(data) is None


@pytest.mark.parametrize("written", ["", "x", 5, ["B" * 22], {}])
def test_mark_with_an_id_that_makes_no_sense_asks_for_no_topic_instead_of_any(written: object) -> None:
    found = admin_codecs.decode_deletion(json.dumps({"version": 1, "topic_id": written}).encode())
    assert found not in (None, "", "B" * 21 + "A"), "a topic without an id has an empty one"


@pytest.mark.parametrize("replicas", [None, 1, "12", [None], ["one"], [True], [1.5], [float("inf")], [2**31], [[1]]])
def test_reassignment_to_what_is_no_broker_is_malformed(replicas: object) -> None:
    good, bad = {"topic": "t", "partition": 0, "replicas": [1]}, {"topic": "t", "partition": 1, "replicas": replicas}
    with pytest.raises(codecs.MalformedZnode, match=paths.REASSIGNMENT):
        admin_codecs.decode_reassignment(json.dumps({"version": 1, "partitions": [good, bad]}).encode())


@pytest.mark.parametrize(
    "entry", [None, [], {"partition": 0}, {"topic": "t"}, *({"topic": "t", "partition": p} for p in (None, "x", 1e999))]
)
def test_request_for_what_is_no_partition_is_malformed(entry: object) -> None:
    data = json.dumps({"version": 1, "partitions": [entry]}).encode()
    with pytest.raises(codecs.MalformedZnode, match=paths.PREFERRED_ELECTION):
        admin_codecs.decode_preferred_election(data)
    with pytest.raises(codecs.MalformedZnode, match=paths.REASSIGNMENT):
        admin_codecs.decode_reassignment(data)
