"""A process of the workload `wide` against a leader that is played."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from broker.wire.api import ApiKey
from broker.wire.record_batch import read_header
from broker.wire.records import NewRecord, encode_batch
from harness.clients.connection import Address
from harness.clients.router import Cluster
from harness.clients.values import encode_value
from harness.operations.generator import Op
from harness.operations.op import Completion, Invocation
from harness.workloads.append_poll.client import ProcessSettings, Shared
from harness.workloads.wide.client import WideClient
from harness.workloads.wide.generators import BEYOND, LOOKUP, Sending
from tests.integration.harness.fake_broker import FakeBroker

pytestmark = pytest.mark.guarantee("H6")

POLL = Op(0, 0, "poll", 0)


class Recorder:
    """What the processes recorded beside the operations that they were asked for."""

    def __init__(self) -> None:
        self.begun: dict[int, Invocation] = {}
        self.came_out: dict[int, Completion] = {}

    def invoke(self, invocation: Invocation) -> int:
        self.begun[len(self.begun)] = invocation
        return len(self.begun) - 1

    def complete(self, index: int, invocation: Invocation, completion: Completion) -> None:
        assert self.begun[index] == invocation
        assert index not in self.came_out
        self.came_out[index] = completion

    def forget(self) -> None:
        self.begun.clear()
        self.came_out.clear()

    @property
    def pairs(self) -> list[tuple[Invocation, Completion]]:
        return [(self.begun[index], self.came_out[index]) for index in sorted(self.begun)]


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    fake = FakeBroker(partitions=3)
    yield fake
    fake.close()


@pytest.fixture
def record() -> Recorder:
    return Recorder()


@pytest.fixture
def make(cluster: Cluster, record: Recorder) -> Iterator[Callable[..., WideClient]]:
    made: list[WideClient] = []
    numbers = itertools.count(1000)

    def make_process(sessions: float = 0.0, timeout_ms: int = 3000) -> WideClient:
        settings = ProcessSettings(cluster, -1, 60, timeout_ms, seed=1, read_committed=0.0)
        made.append(
            WideClient(0, 0, settings, Shared(), lambda: "main", record, lambda: next(numbers), sessions=sessions)
        )
        return made[-1]

    yield make_process
    for process in made:
        process.close()


def carry_out(process: WideClient, op: Op) -> tuple[Invocation, Completion]:
    invocation = process.resolve(op)
    return invocation, process.invoke(invocation)


def send(*values: int, further: dict[int, tuple[int, ...]] | None = None, acks_one: bool = False) -> Op:
    return Op(0, 0, "send", 0, values, detail=Sending(tuple((further or {}).items()), acks_one))


def append(broker: FakeBroker, partition: int, value: int) -> None:
    broker.append(partition, encode_batch([NewRecord(None, encode_value(value, "hw", partition, 60))], timestamps=1))


def test_batches_of_several_partitions_go_out_in_one_request(
    broker: FakeBroker, make: Callable[..., WideClient], record: Recorder
) -> None:
    process = make()
    carry_out(process, send(1))
    asked = broker.asked(ApiKey.PRODUCE)
    invocation, completion = carry_out(process, send(2, 3, further={1: (4, 5), 2: (6, 7)}))
    assert broker.asked(ApiKey.PRODUCE) == asked + 1
    assert (completion.outcome, completion.fields) == ("ok", {"base_offset": 1})
    for (also, outcome), (partition, values) in zip(record.pairs, ((1, [4, 5]), (2, [6, 7])), strict=True):
        assert (also.f, also.home, also.node) == ("send", ("hw", partition), invocation.node)
        assert (also.fields["values"], also.fields["acks"]) == (values, -1)
        assert (outcome.outcome, outcome.fields) == ("ok", {"base_offset": 0})
    assert len({invocation.process, *(also.process for also, _ in record.pairs)}) == 3


def test_records_have_the_time_that_their_send_says(
    broker: FakeBroker, make: Callable[..., WideClient], record: Recorder
) -> None:
    process = make()
    for op in (send(1), send(2, further={1: (3,)}), replace(send(4), sentinel=True)):
        before = time.time_ns() // 1_000_000
        invocation, _ = carry_out(process, op)
        stamp = invocation.fields["timestamp"]
        assert isinstance(stamp, int)
        assert before <= stamp <= time.time_ns() // 1_000_000
        (header,) = [read_header(memoryview(bytes(broker.partitions[0].log)), broker.last_at(0))]
        assert header.max_timestamp == stamp
        assert {also.fields["timestamp"] for also, _ in record.pairs} <= {stamp}
        record.forget()
    assert process._shared.sentinels == {0: 2}


def test_batch_for_a_partition_of_another_leader_stays_out(
    broker: FakeBroker, make: Callable[..., WideClient], record: Recorder
) -> None:
    broker.partitions[2].leader = 9
    carry_out(make(), send(1, further={1: (2,), 2: (3,)}))
    assert [also.partition for also, _ in record.pairs] == [1]
    assert broker.partitions[2].leo == 0


def test_each_batch_of_a_request_comes_out_for_itself(
    broker: FakeBroker, make: Callable[..., WideClient], record: Recorder
) -> None:
    broker.partitions[1].produce_error = 19
    broker.partitions[2].produce_error = 7
    _, completion = carry_out(make(), send(1, further={1: (2,), 2: (3,)}))
    assert completion.outcome == "ok"
    assert [(outcome.outcome, outcome.error) for _, outcome in record.pairs] == [
        ("fail", "NOT_ENOUGH_REPLICAS"),
        ("info", "REQUEST_TIMED_OUT"),
    ]


def test_process_of_a_further_operation_that_is_unknown_is_never_seen_again(
    broker: FakeBroker, make: Callable[..., WideClient], record: Recorder
) -> None:
    broker.partitions[1].produce_error = 7
    process = make()
    for value in (0, 10):
        carry_out(process, send(value, further={1: (value + 1,), 2: (value + 2,)}))
    of_1, of_2 = ([also.process for also, _ in record.pairs if also.partition == at] for at in (1, 2))
    assert len(set(of_1)) == 2
    assert len(set(of_2)) == 1


def test_without_a_response_all_that_the_request_carried_is_unknown(
    broker: FakeBroker, make: Callable[..., WideClient], record: Recorder
) -> None:
    broker.next(ApiKey.PRODUCE, lambda _header: None)
    _, completion = carry_out(make(), send(1, further={1: (2,), 2: (3,)}))
    assert completion.outcome == "info"
    assert [outcome.outcome for _, outcome in record.pairs] == ["info", "info"]


def test_acks_one_is_of_the_whole_request(
    broker: FakeBroker, make: Callable[..., WideClient], record: Recorder
) -> None:
    invocation, _ = carry_out(make(), send(1, further={1: (2,)}, acks_one=True))
    assert [invocation.fields["acks"], *(also.fields["acks"] for also, _ in record.pairs)] == [1, 1]


def test_session_names_only_what_changed_and_a_silent_partition_is_an_empty_poll(
    broker: FakeBroker, make: Callable[..., WideClient], record: Recorder
) -> None:
    for partition in range(3):
        append(broker, partition, partition)
    process = make(sessions=1.0)
    carry_out(process, POLL)
    assert [len(request.partitions) for request in broker.fetched] == [3]
    carry_out(process, POLL)
    append(broker, 1, 10)
    record.forget()
    invocation, completion = carry_out(process, POLL)
    last = broker.fetched[-1]
    assert last.session_id != 0
    assert last.partitions == []
    assert (completion.outcome, completion.fields["records"]) == ("ok", [])
    assert completion.fields["next_position"] == invocation.fields["position"] == 1
    assert completion.fields["hw"] == 1
    (of_1, came_1), (of_2, came_2) = record.pairs
    assert (of_1.partition, came_1.fields["hw"], came_1.fields["next_position"]) == (1, 2, 2)
    assert came_1.fields["records"] == [{"offset": 1, "value": 10, "epoch": 5, "intact": True}]
    assert (of_2.partition, came_2.outcome, came_2.fields["records"]) == (2, "ok", [])


def test_session_that_the_broker_does_not_know_fails_and_is_begun_anew(
    broker: FakeBroker, make: Callable[..., WideClient], record: Recorder
) -> None:
    append(broker, 0, 1)
    process = make(sessions=1.0)
    carry_out(process, POLL)
    broker.sessions.clear()
    record.forget()
    _, completion = carry_out(process, POLL)
    assert (completion.outcome, completion.error) == ("fail", "FETCH_SESSION_ID_NOT_FOUND")
    assert [(outcome.outcome, outcome.error) for _, outcome in record.pairs] == [
        (completion.outcome, completion.error)
    ] * 2
    invocation, completion = carry_out(process, POLL)
    assert (broker.fetched[-1].session_id, broker.fetched[-1].session_epoch) == (0, 0)
    assert (completion.outcome, invocation.fields["position"]) == ("ok", 1)


def test_broker_that_keeps_no_session_gets_full_requests(broker: FakeBroker, make: Callable[..., WideClient]) -> None:
    broker.sessions_max = 0
    process = make(sessions=1.0)
    outcomes = [carry_out(process, POLL)[1].outcome for _ in range(3)]
    assert outcomes == ["ok"] * 3
    assert [(request.session_id, len(request.partitions)) for request in broker.fetched] == [(0, 3)] * 3


def test_partition_whose_leader_moved_leaves_the_session(broker: FakeBroker, make: Callable[..., WideClient]) -> None:
    process = make(sessions=1.0)
    carry_out(process, POLL)
    broker.partitions[2].leader = 9
    process._router.refresh()
    carry_out(process, POLL)
    assert [gone.partition for gone in broker.fetched[-1].forgotten] == [2]


def test_reader_of_followers_asks_who_does_not_lead_and_names_a_rack(broker: FakeBroker, record: Recorder) -> None:
    behind = FakeBroker(partitions=1, broker_id=2)
    behind.partitions[0].leader = 1
    broker.partitions[0].isr = behind.partitions[0].isr = [1, 2]
    append(broker, 0, 1)
    append(broker, 0, 2)
    append(behind, 0, 1)
    # Broker 3 has no replica, and is never asked.
    addresses = {1: Address("127.0.0.1", broker.port), 2: Address("127.0.0.1", behind.port), 3: Address("127.0.0.1", 1)}
    names = {1: "n1", 2: "n2", 3: "n3"}
    settings = ProcessSettings(Cluster("hw", addresses, names), -1, 60, 3000, seed=1, read_committed=0.0)
    process = WideClient(
        0, 0, settings, Shared(), lambda: "main", record, lambda: 1000, sessions=1.0, follower_reads=1.0
    )
    try:
        invocation, completion = carry_out(process, POLL)
    finally:
        process.close()
        behind.close()
    assert (invocation.node, invocation.fields["reader"], invocation.fields["leader_epoch"]) == ("n2", "follower", 5)
    assert completion.fields["hw"] == 1
    assert [one.rack_id for one in behind.fetched] == ["near"]
    assert broker.fetched == []


def test_lookup_asks_for_a_time_and_records_what_was_found(broker: FakeBroker, make: Callable[..., WideClient]) -> None:
    append(broker, 0, 1)
    invocation, completion = carry_out(make(), Op(0, 0, "list_offsets", 0, detail=LOOKUP))
    asked = invocation.fields["timestamp"]
    assert isinstance(asked, int)
    assert asked > 1_600_000_000_000
    assert completion.fields == {"offset": 1, "leader_epoch_answered": 5, "timestamp_answered": asked}


DELETE = Op(0, 0, "delete_records", 0)


def test_deletion_names_an_offset_below_the_watermark_that_was_seen_last(
    broker: FakeBroker, make: Callable[..., WideClient]
) -> None:
    for value in range(40):
        append(broker, 0, value)
    process = make()
    carry_out(process, POLL)
    asked: list[int] = []
    for _ in range(8):
        invocation, completion = carry_out(process, DELETE)
        before = invocation.fields["before"]
        assert isinstance(before, int)
        asked.append(before)
        assert (completion.outcome, completion.fields) == ("ok", {"low_watermark": max(asked)})
    assert all(0 <= before <= 40 for before in asked)
    assert len(set(asked)) > 3
    assert broker.partitions[0].log_start == max(asked)


def test_deletion_of_what_nobody_has_seen_yet_deletes_nothing(
    broker: FakeBroker, make: Callable[..., WideClient]
) -> None:
    append(broker, 0, 1)
    invocation, completion = carry_out(make(), DELETE)
    assert (invocation.fields["before"], completion.outcome) == (0, "ok")
    assert broker.partitions[0].log_start == 0


def test_deletion_beyond_the_end_is_refused(broker: FakeBroker, make: Callable[..., WideClient]) -> None:
    append(broker, 0, 1)
    process = make()
    carry_out(process, POLL)
    _, completion = carry_out(process, Op(0, 0, "delete_records", 0, detail=BEYOND))
    assert (completion.outcome, completion.error) == ("fail", "OFFSET_OUT_OF_RANGE")
    assert broker.partitions[0].log_start == 0


def test_deletion_that_may_have_happened_is_unknown(broker: FakeBroker, make: Callable[..., WideClient]) -> None:
    process = make()
    broker.partitions[0].delete_error = 6
    _, completion = carry_out(process, DELETE)
    assert (completion.outcome, completion.error) == ("info", "NOT_LEADER_OR_FOLLOWER")
    broker.next(ApiKey.DELETE_RECORDS, lambda _header: None)
    _, completion = carry_out(process, DELETE)
    assert (completion.outcome, completion.fields) == ("info", {})


def test_process_that_is_refused_everywhere_asks_where_one_log_begins_in_one_request(
    broker: FakeBroker, make: Callable[..., WideClient]
) -> None:
    """The question is about one partition, and takes no others along."""
    process = make(sessions=1.0)
    carry_out(process, POLL)
    for partition in broker.partitions.values():
        partition.log_start = partition.leo = 7
    refused, _ = carry_out(process, POLL)
    asked, answer = carry_out(process, POLL)
    assert (refused.f, asked.f, answer.fields["offset"]) == ("poll", "list_offsets", 7)
    assert broker.asked(ApiKey.LIST_OFFSETS) == 1
    read_on, completion = carry_out(process, POLL)
    assert (read_on.f, read_on.fields["position"], completion.outcome) == ("poll", 7, "ok")
