"""What an application of real clients records and commits, with a consumer of librdkafka's that is played."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from harness.clients.connection import Address
from harness.operations.op import Completion, Invocation
from harness.plan.run_file import parse_plan
from harness.plan.toml_source import PlanError
from harness.workloads import checkers_of, workload_kind
from harness.workloads.base import RunContext
from harness.workloads.real_clients.consumer import Member
from harness.workloads.real_clients.librdkafka import LibrdkafkaConsumer, LibrdkafkaSender, delivery_outcome, offset_of
from harness.workloads.real_clients.options import Options
from harness.workloads.real_clients.ports import Clients, Record
from harness.workloads.real_clients.processing import Committing, Reached
from harness.workloads.real_clients.record import Process
from harness.workloads.real_clients.settings import Settings
from harness.workloads.real_clients.workload import idle_readers

RECORDS = (Record(0, 5, 100, True), Record(0, 6, 101, True), Record(1, 3, 102, True))


class Notes:
    """A history and a run in one, which keep what they are given."""

    phase = "main"

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.invocations: list[Invocation] = []
        self._processes = 0

    @property
    def history(self) -> Notes:
        return self

    def next_process(self) -> int:
        self._processes += 1
        return self._processes

    def invoke(self, invocation: Invocation) -> int:
        self.invocations.append(invocation)
        self.lines.append(("invoke", invocation.f))
        return len(self.invocations) - 1

    def complete(self, _op: int, invocation: Invocation, completion: Completion) -> None:
        self.lines.append((completion.outcome, invocation.f))


class Consumer:
    """errors: of its next commits; None where one comes off."""

    def __init__(self, errors: Sequence[int | None] = ()) -> None:
        self.errors = list(errors)
        self.committed: list[dict[int, int]] = []
        self.id = "m"
        self.asynchronous = False
        self.callbacks: dict[str, Callable[[Any, Any], None]] = {}
        self.done: list[tuple[str, list[int]]] = []
        self._closing = False

    def subscribe(self, topics: Sequence[str], **callbacks: Callable[[Any, Any], None]) -> None:
        assert topics == ["hw"]
        self.callbacks = callbacks

    def memberid(self) -> str:
        assert not self._closing, "librdkafka may never answer"
        return self.id

    def close(self) -> None:
        """Calls back with what it gives up, as librdkafka does."""
        self._closing = True
        self.callbacks["on_revoke"](self, places(0))

    def commit(self, offsets: Sequence[TopicPartition], asynchronous: bool) -> Sequence[TopicPartition]:
        assert asynchronous == self.asynchronous
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise KafkaException(KafkaError(error))
        self.committed.append({one.partition: one.offset for one in offsets})
        return offsets

    def unassign(self) -> None:
        self.done.append(("unassign", []))

    def incremental_assign(self, given: Sequence[TopicPartition]) -> None:
        self.done.append(("incremental_assign", [one.partition for one in given]))

    def incremental_unassign(self, given: Sequence[TopicPartition]) -> None:
        self.done.append(("incremental_unassign", [one.partition for one in given]))


def settings(promise: str, assignor: str = "range") -> Settings:
    options = Options(promise=promise, assignor=assignor)
    return Settings([Address("h", 1)], "hw", "hw", 2, 100, 3000, -1, 1, options)


def member(notes: Notes, consumer: Consumer, promise: str, assignor: str = "range") -> Member:
    never = cast(Callable[[Process], Any], None)
    process = Process(cast(RunContext, notes), "confluent")
    made = Member(settings(promise, assignor), 0, process, never, cast(Clients, None))
    made.consumer = LibrdkafkaConsumer(made.settings, consumer, made)
    return made


def gathered(application: Member) -> None:
    application._gathered, application._unsaid = list(RECORDS), list(RECORDS)
    application.uncommitted = {0: 5, 1: 3}


def places(*partitions: int) -> list[TopicPartition]:
    return [TopicPartition("hw", partition) for partition in partitions]


def test_at_most_once_processes_what_is_committed_and_nothing_else() -> None:
    notes, consumer = Notes(), Consumer([KafkaError._TIMED_OUT, None])
    application, reached = member(notes, consumer, "at-most-once"), Reached()
    processing = Committing("at-most-once", reached)
    processing.take(application, RECORDS[:2])
    assert notes.lines == [("invoke", "commit_offsets"), ("info", "commit_offsets")]
    processing.take(application, RECORDS[2:])
    assert consumer.committed == [{0: 7, 1: 4}]
    assert [one.fields["values"] for one in notes.invocations if one.f == "process"] == [[102]]
    assert reached.offsets == {0: 7, 1: 4}


def test_at_least_once_processes_before_it_commits_and_tries_the_commit_again() -> None:
    notes, consumer = Notes(), Consumer([KafkaError.UNKNOWN_MEMBER_ID, None])
    application, reached = member(notes, consumer, "at-least-once"), Reached()
    processing = Committing("at-least-once", reached)
    processing.take(application, RECORDS)
    assert [f for kind, f in notes.lines if kind == "invoke"] == ["process", "process", "commit_offsets"]
    assert not reached.offsets
    processing.take(application, ())
    assert consumer.committed == [{0: 7, 1: 4}]


def test_member_that_does_not_wait_commits_again_what_was_not_confirmed() -> None:
    notes, consumer, reached = Notes(), Consumer(), Reached()
    application = member(notes, consumer, "at-least-once")
    application.settings = replace(application.settings, options=Options(commits="async"))
    consumer.asynchronous = True
    confirm = cast(LibrdkafkaConsumer, application.consumer).on_commit
    processing = Committing("at-least-once", reached)
    for records in (RECORDS[:1], RECORDS[1:]):
        processing.take(application, records)
    # The second waits for the first, which is refused.
    assert (consumer.committed, reached.offsets) == ([{0: 6}], {})
    confirm(KafkaError(KafkaError.NOT_COORDINATOR), places(0))
    processing.take(application, ())
    confirm(None, places(0, 1))
    assert (consumer.committed[1:], reached.offsets, application.uncommitted) == ([{0: 7, 1: 4}], {0: 7, 1: 4}, {})
    assert [kind for kind, f in notes.lines if f == "commit_offsets"] == ["invoke", "info", "invoke", "ok"]


def test_commit_under_way_when_its_member_closes_is_unknown() -> None:
    notes, consumer = Notes(), Consumer()
    application = member(notes, consumer, "at-least-once")
    application.settings = replace(application.settings, options=Options(commits="async"))
    consumer.asynchronous = True
    processing = Committing("at-least-once", Reached())
    processing.take(application, RECORDS)
    processing.close()
    cast(LibrdkafkaConsumer, application.consumer).on_commit(None, places(0, 1))
    assert notes.lines[-1] == ("info", "commit_offsets")


def test_commit_of_no_member_is_not_sent() -> None:
    notes, consumer = Notes(), Consumer()
    consumer.id = ""
    application = member(notes, consumer, "at-most-once")
    Committing("at-most-once", Reached()).take(application, RECORDS)
    assert (notes.lines, consumer.committed) == ([], [])


def test_revocation_is_recorded_behind_what_was_delivered_and_ends_the_consumers_name() -> None:
    notes, consumer = Notes(), Consumer()
    application = member(notes, consumer, "at-least-once")
    gathered(application)
    before = application.consumer_name(0)
    consumer.callbacks["on_revoke"](consumer, places(1, 0))
    assert [one.f for one in notes.invocations] == ["poll", "poll", "revoke"]
    assert [one.fields["consumer"] for one in notes.invocations[:2]] == [before, before]
    assert notes.invocations[0].fields["client_position"] == 5
    assert notes.invocations[2].fields["partitions"] == ["hw-0", "hw-1"]
    assert application.consumer_name(0) != before
    assert (application._gathered, application.uncommitted) == ([], {})
    assert consumer.done == [("unassign", [])]


def test_closing_member_asks_librdkafka_nothing_and_says_who_it_was() -> None:
    notes, consumer = Notes(), Consumer()
    application = member(notes, consumer, "at-most-once")
    application.consumer.close()
    (revoked,) = notes.invocations
    assert (revoked.f, revoked.fields["member"], consumer.done) == ("revoke", "m", [("unassign", [])])


@pytest.mark.parametrize(("callback", "f"), [("on_revoke", "revoke"), ("on_lost", "lost")])
def test_cooperative_member_goes_on_with_what_it_keeps(callback: str, f: str) -> None:
    notes, consumer = Notes(), Consumer()
    application = member(notes, consumer, "at-least-once", "cooperative-sticky")
    gathered(application)
    kept, gone = application.consumer_name(0), application.consumer_name(1)
    consumer.callbacks[callback](consumer, places(1))
    assert [one.f for one in notes.invocations] == ["poll", "poll", f]
    assert notes.invocations[2].fields["rebalance"] == "cooperative"
    # Their names are of one assignment each; what is kept has not begun another.
    assert (application._gathered, application.uncommitted) == (list(RECORDS[:2]), {0: 5})
    consumer.callbacks["on_assign"](consumer, places(1))
    assert (application.consumer_name(0), application.consumer_name(1) != gone) == (kept, True)
    assert consumer.done == [("incremental_unassign", [1]), ("incremental_assign", [1])]
    application._deliver()
    assert [one.f for one in notes.invocations] == ["poll", "poll", f, "assign"]


def test_process_that_does_not_know_what_became_of_a_call_goes_on_under_another_number() -> None:
    notes = Notes()
    process = Process(cast(RunContext, notes), "confluent")
    first, second = process.invoke("send", ("hw", 0), {}), process.invoke("send", ("hw", 0), {})
    process.complete(first, "info", "timeout")
    process.complete(second, "ok")
    third = process.invoke("send", ("hw", 0), {})
    assert [one.invocation.process for one in (first, second, third)] == [1, 1, 2]


@pytest.mark.parametrize(
    ("name", "retries", "expected"),
    [
        ("NOT_ENOUGH_REPLICAS", False, ("fail", "NOT_ENOUGH_REPLICAS")),
        # An earlier request of the same record may have been taken.
        ("NOT_ENOUGH_REPLICAS", True, ("info", "NOT_ENOUGH_REPLICAS")),
        ("REQUEST_TIMED_OUT", False, ("info", "REQUEST_TIMED_OUT")),
        ("_MSG_TIMED_OUT", False, ("info", "timeout")),
        ("_TRANSPORT", False, ("info", "connection-reset")),
        ("_PURGE_INFLIGHT", True, ("info", "client-error")),
        ("_PURGE_QUEUE", False, ("fail", "client-error")),
        # It may wait there for its second request.
        ("_PURGE_QUEUE", True, ("info", "client-error")),
        ("_QUEUE_FULL", True, ("fail", "client-error")),
    ],
)
def test_delivery_callback_says_what_is_certain(name: str, retries: bool, expected: tuple[str, str]) -> None:
    assert delivery_outcome(name, retries=retries) == expected


@pytest.mark.parametrize(("acks", "outcome"), [(-1, "info"), (1, "fail")])
@pytest.mark.parametrize("name", ["_PURGE_QUEUE", "NOT_ENOUGH_REPLICAS"])
def test_record_that_a_deposed_leader_may_have_taken_is_unknown_without_retries_too(
    acks: int, outcome: str, name: str
) -> None:
    """librdkafka sends it to the next leader, and counts no try. With acks=1 it is told so before the append."""
    delivered: list[tuple[object, ...]] = []
    of_it = replace(settings("at-most-once"), acks=acks)
    sender = LibrdkafkaSender(of_it, 0, lambda *found: delivered.append(found))
    sender._delivered(7, KafkaError(getattr(KafkaError, name)), None)
    sender.finish(0)
    error = name if name[0] != "_" else "client-error"
    assert delivered == [(7, outcome, error, None)]


def plan_text(workload: str = "", promise: str = "at-least-once", more: str = "") -> str:
    options = f'[workload.options]\npromise = "{promise}"\n{more}\n'
    return f'name = "x"\n[workload]\nkind = "real-clients"\n{workload}\n{options}'


@pytest.mark.parametrize("promise", ["at-most-once", "at-least-once", "exactly-once"])
def test_run_is_judged_by_what_its_application_promises(promise: str) -> None:
    promises = {"at-most-once", "at-least-once", "exactly-once"}
    assert promises & set(checkers_of(parse_plan("x.toml", plan_text(promise=promise)))) == {promise}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (plan_text(promise="twice"), "'twice' is not one of at-most-once, at-least-once, exactly-once"),
        (plan_text(more='client = "c"'), "'c' is not one of confluent, java, mixed"),
        (plan_text(more='assignor = "sticky"'), "'sticky' is not one of range, cooperative-sticky"),
        (plan_text(more='java_client = "2.8"'), "'2.8' is not one of 3.9.1"),
        (plan_text(promise="at-most-once", more='commits = "async"'), "at-most-once waits for its commits"),
        (plan_text("acks = 1"), 'workload.acks: an application that promises at-least-once needs "all"'),
        (plan_text("acks = 0", "at-most-once"), "workload.acks"),
        (plan_text("consumers = 0"), "real-clients needs producers, and consumers"),
        (plan_text("records_per_send = 2"), "workload.records_per_send"),
    ],
)
def test_load_that_no_application_can_be_is_refused(text: str, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        workload_kind("real-clients").check(parse_plan("x.toml", text))


def test_at_most_once_may_have_its_leader_acknowledge_alone() -> None:
    workload_kind("real-clients").check(parse_plan("x.toml", plan_text("acks = 1", "at-most-once")))


@pytest.mark.parametrize("promise", ["at-most-once", "at-least-once", "exactly-once"])
def test_librdkafka_is_set_up_for_the_promise(promise: str) -> None:
    producer, consumer = settings(promise).of_producer(0), settings(promise).of_consumer(0)
    assert (producer.get("retries"), producer.get("enable.idempotence")) == (
        (0, None) if promise == "at-most-once" else (None, True)
    )
    assert consumer["isolation.level"] == ("read_committed" if promise == "exactly-once" else "read_uncommitted")
    assert consumer["enable.auto.commit"] is False


@pytest.mark.parametrize(("offset", "expected"), [(0, 0), (7, 7), (-1001, None), (None, None)])
def test_delivered_record_may_be_where_nobody_says(offset: int | None, expected: int | None) -> None:
    class Message:
        def offset(self) -> int | None:
            return offset

    assert offset_of(Message()) == expected


@pytest.mark.parametrize(
    ("client", "expected"), [("confluent", [False] * 3), ("java", [True] * 3), ("mixed", [False, True, False])]
)
def test_mixed_application_has_clients_of_both_libraries_in_turn(client: str, expected: list[bool]) -> None:
    assert [replace(Options(), client=client).is_java(number) for number in range(3)] == expected


def test_library_of_which_nothing_was_acknowledged_took_no_part() -> None:
    assert idle_readers([("confluent", 5), ("java", 0), ("confluent", 0)]) == ["java"]


class FatalProducer:
    """A producer of librdkafka's that raises a fatal error wherever it serves callbacks."""

    def __init__(self, _properties: object) -> None:
        self.on_delivery: Callable[[Any, Any], None] | None = None

    def produce(self, _topic: str, *, value: bytes, partition: int, on_delivery: Callable[[Any, Any], None]) -> None:
        self.on_delivery = on_delivery

    def poll(self, _wait_s: float) -> None:
        raise KafkaException(KafkaError(KafkaError._FENCED, "", True, False, False))

    def purge(self) -> None:
        """What is under way has its callback with the next flush."""

    def flush(self, _limit_s: float) -> None:
        if self.on_delivery is not None:
            self.on_delivery(KafkaError(KafkaError._PURGE_INFLIGHT), None)
            self.on_delivery = None
        self.poll(0)


def test_producer_with_a_fatal_error_is_closed_and_its_records_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("confluent_kafka.Producer", FatalProducer)
    delivered: list[tuple[object, ...]] = []
    sender = LibrdkafkaSender(settings("at-least-once"), 0, lambda *found: delivered.append(found))
    sender.send(7, 0, b"x")
    sender.serve(0)
    assert sender.broken
    sender.finish(1)
    assert delivered == [(7, "info", "client-error", None)]
