from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.wire.api import ApiKey
from harness.clients.admin import Admin, AdminError, has_full_isrs, has_leaders
from harness.clients.connection import Address
from harness.clients.router import Cluster
from harness.operations.history import History, read_lines
from harness.plan.plan import TopicPlan
from harness.workloads.append_poll.script_sender import WireScriptSender
from harness.workloads.base import ScriptReader
from tests.integration.harness.fake_broker import FakeBroker

TOPIC = TopicPlan("hw", 2, 1)


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    made = Admin(cluster, sleep=lambda _s: None)
    yield made
    made.close()


def test_create_topic_creates_it_with_all_partitions_led(broker: FakeBroker, admin: Admin) -> None:
    broker.partitions = {}
    admin.create_topic(TOPIC, 5)
    assert set(broker.partitions) == {0, 1}
    state = admin.wait("leaders", has_leaders(TOPIC), 5, every_broker=True)
    assert [p.leader for p in state.partitions.values()] == [1, 1]


def test_create_topic_that_exists_is_done(broker: FakeBroker, admin: Admin) -> None:
    admin.create_topic(TopicPlan("hw", 1, 1), 5)
    assert set(broker.partitions) == {0}


def test_wait_in_vain_names_what_how_long_and_what_was_seen(broker: FakeBroker, admin: Admin) -> None:
    wanted = TopicPlan("hw", 1, 2)
    with pytest.raises(AdminError, match=r"full ISRs: not within 0\.1 s; last seen: 0: leader 1 ISR \[1\]"):
        admin.wait("full ISRs", has_full_isrs(wanted), 0.1)


def test_wait_every_broker_is_not_content_with_one(broker: FakeBroker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = closed.getsockname()[1]
    both = Cluster("hw", {1: Address("127.0.0.1", broker.port), 2: Address("127.0.0.1", nobody)}, {1: "n1", 2: "n2"})
    admin = Admin(both, sleep=lambda _s: None)
    one = TopicPlan("hw", 1, 1)
    assert admin.wait("leaders", has_leaders(one), 5).controller == 1
    with pytest.raises(AdminError, match="connection-refused"):
        admin.wait("leaders", has_leaders(one), 0.1, every_broker=True)
    admin.close()


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    with History(tmp_path / "h", 0) as made:
        yield made


def sender(admin: Admin, history: History) -> WireScriptSender:
    numbers = iter(range(100, 200))
    return WireScriptSender(
        admin, history, lambda: next(numbers), record_bytes=60, request_timeout_ms=2000, sleep=lambda _s: None
    )


def test_script_send_is_one_operation_with_fresh_values(broker: FakeBroker, admin: Admin, history: History) -> None:
    script = sender(admin, history)
    first = script.send(0, 2, -1, None)
    second = script.send(0, 1, -1, "n1")
    assert (first.outcome, first.values, first.base_offset) == ("ok", (0, 1), 0)
    assert (second.outcome, second.values, second.base_offset) == ("ok", (2,), 2)
    history.flush()
    lines = list(read_lines(history.path))
    assert [(line["type"], line["process"]) for line in lines] == [("invoke", 100), ("ok", 100)] * 2


def test_script_send_info_retires_its_process(broker: FakeBroker, admin: Admin, history: History) -> None:
    broker.partitions[0].produce_error = 7
    script = sender(admin, history)
    assert script.send(0, 1, -1, None).outcome == "info"
    script.send(0, 1, -1, None)
    history.flush()
    processes = [line["process"] for line in read_lines(history.path) if line["type"] == "invoke"]
    assert processes == [100, 101]


def test_script_send_without_a_leader_fails(broker: FakeBroker, admin: Admin, history: History) -> None:
    broker.partitions[0].leader = -1
    sent = sender(admin, history).send(0, 1, -1, None)
    assert (sent.outcome, sent.error) == ("fail", "no-leader-known")
    assert broker.partitions[0].leo == 0


def test_script_reads_are_operations_in_the_epoch_of_the_leader_that_metadata_names(
    broker: FakeBroker, admin: Admin, history: History
) -> None:
    script = sender(admin, history)
    assert isinstance(script, ScriptReader)
    # Which epoch a node leads in is not known before it was looked up.
    assert script.poll(0, 0, "n1").outcome == "ok"
    script.send(0, 3, -1, None)
    shown = script.poll(0, 1, None)
    assert (shown.outcome, shown.values, shown.next_position, shown.hw) == ("ok", (1, 2), 3, 3)
    told = script.list_offsets(0, "latest", "n1")
    assert (told.outcome, told.offset) == ("ok", 3)
    assert script.list_offsets(0, "earliest", None).offset == 0
    history.flush()
    lines = list(read_lines(history.path))
    reads = [line for line in lines if line["f"] in ("poll", "list_offsets") and line["type"] == "invoke"]
    epoch = broker.partitions[0].epoch
    assert [line["leader_epoch"] for line in reads] == [-1, epoch, epoch, epoch]
    assert [line.get("timestamp") for line in reads] == [None, None, -1, -2]
    (records,) = [line["records"] for line in lines if line["f"] == "poll" and line.get("records")]
    assert isinstance(records, list)
    assert [(record["offset"], record["value"]) for record in records] == [(1, 1), (2, 2)]


def test_script_deletion_is_an_operation_with_the_low_watermark_that_was_answered(
    broker: FakeBroker, admin: Admin, history: History
) -> None:
    script = sender(admin, history)
    script.send(0, 3, -1, None)
    assert script.delete_records(0, 2, None) == ("ok", 2, None)
    assert script.delete_records(0, 9, "n1") == ("fail", -1, "OFFSET_OUT_OF_RANGE")
    history.flush()
    lines = [line for line in read_lines(history.path) if line["f"] == "delete_records"]
    assert [(line["type"], line.get("before"), line.get("low_watermark")) for line in lines] == [
        ("invoke", 2, None),
        ("ok", None, 2),
        ("invoke", 9, None),
        ("fail", None, None),
    ]


def test_script_read_that_is_refused_or_has_no_leader_fails(broker: FakeBroker, admin: Admin, history: History) -> None:
    script = sender(admin, history)
    assert script.poll(0, 9, None) == ("fail", (), 9, -1, "OFFSET_OUT_OF_RANGE")
    broker.partitions[0].leader = -1
    assert script.list_offsets(0, "latest", None) == ("fail", -1, "no-leader-known")


def test_script_send_to_a_node_that_is_down_fails(broker: FakeBroker, admin: Admin, history: History) -> None:
    broker.close()
    sent = sender(admin, history).send(0, 1, -1, "n1")
    assert (sent.outcome, sent.error) == ("fail", "connection-refused")


def test_script_send_to_a_leader_that_is_gone_looks_the_leader_up_again(broker: FakeBroker, history: History) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = closed.getsockname()[1]
    both = Cluster("hw", {1: Address("127.0.0.1", broker.port), 2: Address("127.0.0.1", nobody)}, {1: "n1", 2: "n2"})
    admin = Admin(both, sleep=lambda _s: None)
    broker.partitions[0].leader = 2
    looked: list[float] = []

    def metadata_hears_of_it(seconds: float) -> None:
        looked.append(seconds)
        broker.partitions[0].leader = 1

    numbers = iter(range(100, 200))
    script = WireScriptSender(
        admin, history, lambda: next(numbers), record_bytes=60, request_timeout_ms=5000, sleep=metadata_hears_of_it
    )
    assert script.send(0, 1, -1, None).outcome == "ok"
    assert looked
    admin.close()
    history.flush()
    assert [line["node"] for line in read_lines(history.path)] == ["n1", "n1"]


def test_setting_of_the_topic_is_set_once_and_seen_at_every_broker(broker: FakeBroker, admin: Admin) -> None:
    broker.config = {"retention.ms": "25000"}
    admin.set_topic_config("retention.ms", "-1", 5)
    assert broker.config == {"retention.ms": "-1"}
    assert broker.asked(ApiKey.INCREMENTAL_ALTER_CONFIGS) == 1
    assert broker.asked(ApiKey.DESCRIBE_CONFIGS) == 2


def test_setting_that_no_broker_takes_is_an_error_that_says_so(broker: FakeBroker, admin: Admin) -> None:
    broker.alter_error = 40
    with pytest.raises(AdminError, match=r"retention\.ms of hw was not set within 0\.1 s: INVALID_CONFIG"):
        admin.set_topic_config("retention.ms", "-1", 0.1)
