from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from broker.wire.api import ApiKey
from broker.wire.records import NewRecord, encode_batch
from harness.clients.router import Cluster
from harness.clients.values import encode_value
from harness.operations.generator import Op
from harness.operations.op import Completion, Invocation
from harness.workloads.append_poll.client import AppendPollClient, ProcessSettings, Shared
from tests.integration.harness.fake_broker import FakeBroker
from tests.support.wait import eventually

pytestmark = pytest.mark.guarantee("H6")

MakeProcess = Callable[..., AppendPollClient]


@pytest.fixture
def shared() -> Shared:
    return Shared()


@pytest.fixture
def make(cluster: Cluster, shared: Shared) -> Iterator[MakeProcess]:
    made: list[AppendPollClient] = []

    def make_process(process: int = 0, thread: int = 0, acks: int = -1, timeout_ms: int = 3000) -> AppendPollClient:
        settings = ProcessSettings(cluster, acks, 60, timeout_ms, seed=1)
        made.append(AppendPollClient(process, thread, settings, shared, lambda: "main"))
        return made[-1]

    yield make_process
    for process in made:
        process.close()


def carry_out(process: AppendPollClient, op: Op) -> tuple[Invocation, Completion]:
    invocation = process.resolve(op)
    return invocation, process.invoke(invocation)


def send(*values: int, sentinel: bool = False) -> Op:
    return Op(0, 0, "send", 0, values, sentinel)


POLL = Op(0, 0, "poll", 0)


def test_send_ok_gives_the_base_offset(broker: FakeBroker, make: MakeProcess) -> None:
    process = make()
    carry_out(process, send(1, 2))
    invocation, completion = carry_out(process, send(3))
    assert (invocation.node, invocation.fields["values"], invocation.fields["acks"]) == ("n1", [3], -1)
    assert (completion.outcome, completion.error, completion.fields) == ("ok", None, {"base_offset": 2})


def test_poll_reads_what_was_sent_with_epoch_and_hash(broker: FakeBroker, make: MakeProcess) -> None:
    process = make()
    carry_out(process, send(10, 11))
    invocation, completion = carry_out(process, POLL)
    assert invocation.fields["position"] == 0
    assert invocation.fields["leader_epoch"] == 5
    assert completion.fields["records"] == [
        {"offset": 0, "value": 10, "epoch": 5, "intact": True},
        {"offset": 1, "value": 11, "epoch": 5, "intact": True},
    ]
    assert (completion.fields["next_position"], completion.fields["hw"]) == (2, 2)


def test_poll_at_the_end_is_ok_empty_and_stays(broker: FakeBroker, make: MakeProcess) -> None:
    process = make()
    carry_out(process, send(10))
    carry_out(process, POLL)
    invocation, completion = carry_out(process, POLL)
    assert invocation.fields["position"] == 1
    assert completion.fields["records"] == []
    assert completion.fields["next_position"] == 1


def test_poll_in_the_middle_of_a_batch_leaves_out_what_lies_before(broker: FakeBroker, make: MakeProcess) -> None:
    process = make()
    carry_out(process, send(10, 11, 12))
    process._positions[0] = 1
    _, completion = carry_out(process, POLL)
    records = completion.fields["records"]
    assert isinstance(records, list)
    assert [record["value"] for record in records] == [11, 12]


@pytest.mark.parametrize("damage", ["other partition", "no record of ours", "with a key"])
def test_poll_foreign_record_is_not_intact(broker: FakeBroker, make: MakeProcess, damage: str) -> None:
    record = {
        "other partition": NewRecord(None, encode_value(5, "hw", 1, 60)),
        "no record of ours": NewRecord(None, b"hello"),
        "with a key": NewRecord(b"k", encode_value(5, "hw", 0, 60)),
    }[damage]
    broker.append(0, encode_batch([record], timestamps=0))
    _, completion = carry_out(make(), POLL)
    value = None if damage == "no record of ours" else 5
    assert completion.fields["records"] == [{"offset": 0, "value": value, "epoch": 5, "intact": False}]


def test_poll_batch_with_a_flipped_bit_is_one_record_that_is_not_intact(broker: FakeBroker, make: MakeProcess) -> None:
    process = make()
    carry_out(process, send(10))
    broker.partitions[0].log[-1] ^= 1
    _, completion = carry_out(process, POLL)
    assert completion.fields["records"] == [{"offset": 0, "value": None, "epoch": 5, "intact": False}]
    assert completion.fields["next_position"] == 1


def test_poll_out_of_range_fails_and_begins_again_at_the_log_start(broker: FakeBroker, make: MakeProcess) -> None:
    process = make()
    carry_out(process, POLL)
    process._positions[0] = 99
    _, completion = carry_out(process, POLL)
    assert (completion.outcome, completion.error) == ("fail", "OFFSET_OUT_OF_RANGE")
    invocation, _ = carry_out(process, POLL)
    assert invocation.fields["position"] == 0


def test_poll_refused_at_the_known_log_start_asks_for_the_start(
    broker: FakeBroker, make: MakeProcess, shared: Shared
) -> None:
    """All that any process was shown is deleted at once, and nobody is shown anything until one asks."""
    process = make()
    carry_out(process, send(1, 2, 3))
    carry_out(process, POLL)
    broker.partitions[0].log_start = broker.partitions[0].leo = 7
    refused = []
    for _ in range(2):
        invocation, completion = carry_out(process, POLL)
        refused.append((invocation.f, invocation.fields["position"], completion.error))
    assert refused == [("poll", 3, "OFFSET_OUT_OF_RANGE"), ("poll", 0, "OFFSET_OUT_OF_RANGE")]
    asked, answer = carry_out(process, POLL)
    assert (asked.f, asked.fields["timestamp"], answer.outcome) == ("list_offsets", -2, "ok")
    assert (answer.fields["offset"], shared.log_starts) == (7, {0: 7})
    invocation, completion = carry_out(process, POLL)
    assert (invocation.f, invocation.fields["position"], completion.outcome) == ("poll", 7, "ok")


def test_list_offsets_gives_offset_and_epoch(broker: FakeBroker, make: MakeProcess) -> None:
    process = make()
    carry_out(process, send(1))
    invocation, completion = carry_out(process, Op(0, 0, "list_offsets", 0))
    assert completion.outcome == "ok"
    expected = 0 if invocation.fields["timestamp"] == -2 else 1
    assert completion.fields == {"offset": expected, "leader_epoch_answered": 5}


@pytest.mark.parametrize(
    ("code", "outcome", "error"),
    [
        (19, "fail", "NOT_ENOUGH_REPLICAS"),
        (20, "info", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"),
        (6, "info", "NOT_LEADER_OR_FOLLOWER"),
        (7, "info", "REQUEST_TIMED_OUT"),
    ],
)
def test_send_error_has_its_outcome(broker: FakeBroker, make: MakeProcess, code: int, outcome: str, error: str) -> None:
    broker.partitions[0].produce_error = code
    _, completion = carry_out(make(), send(1))
    assert (completion.outcome, completion.error, completion.fields) == (outcome, error, {})


def test_send_without_a_response_is_info_and_goes_out_once(broker: FakeBroker, make: MakeProcess) -> None:
    broker.next(ApiKey.PRODUCE, lambda _header: b"")
    _, completion = carry_out(make(timeout_ms=500), send(1))
    assert (completion.outcome, completion.error) == ("info", "timeout")
    # On a busy machine the broker reads it after the client has given up.
    eventually(lambda: broker.asked(ApiKey.PRODUCE) > 0, "the request")
    assert broker.asked(ApiKey.PRODUCE) == 1


def test_send_no_leader_known_fails_with_nothing_sent(broker: FakeBroker, make: MakeProcess) -> None:
    broker.partitions[0].leader = -1
    invocation, completion = carry_out(make(), send(1))
    assert invocation.node is None
    assert (completion.outcome, completion.error) == ("fail", "no-leader-known")
    assert broker.asked(ApiKey.PRODUCE) == 0


def test_send_nobody_there_fails_with_nothing_sent(broker: FakeBroker, make: MakeProcess) -> None:
    process = make()
    carry_out(process, send(1))
    broker.close()
    invocation, completion = carry_out(process, send(2))
    assert completion.outcome == "fail"
    assert completion.error in ("connection-refused", "no-leader-known")
    assert (invocation.node is None) == (completion.error == "no-leader-known")


def test_send_acks_0_is_ok_without_an_offset(broker: FakeBroker, make: MakeProcess) -> None:
    _, completion = carry_out(make(acks=0), send(1))
    assert (completion.outcome, completion.fields) == ("ok", {})


def test_send_sentinel_is_acknowledged_whatever_acks_the_load_has(
    broker: FakeBroker, make: MakeProcess, shared: Shared
) -> None:
    invocation, completion = carry_out(make(acks=0), send(1, sentinel=True))
    assert (invocation.fields["acks"], invocation.fields["sentinel"]) == (-1, True)
    assert completion.fields == {"base_offset": 0}
    assert shared.sentinels == {0: 0}


def test_successors_start_from_the_log_start_the_last_place_or_the_end(broker: FakeBroker, make: MakeProcess) -> None:
    writer = make(process=0)
    carry_out(writer, send(*range(10)))
    reader = make(process=100, thread=1)
    reader._positions[0] = 4
    _, completion = carry_out(reader, POLL)
    assert completion.fields["next_position"] == 10
    reader._positions[0] = 7
    reader.close()
    begun = {make(process=process, thread=1)._position(0) for process in range(101, 131)}
    assert begun == {0, 7, 10}
