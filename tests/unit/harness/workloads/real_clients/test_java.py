"""What the Java client's lines become in an application, with a process that is played."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, cast

import pytest

from harness.clients.connection import Address
from harness.clients.java.lines import Failure
from harness.clients.java.process import CallRefused, ClientDied
from harness.clients.java.program import Program
from harness.clients.values import encode_value
from harness.operations.op import Completion, Invocation
from harness.workloads.base import RunContext
from harness.workloads.real_clients import java
from harness.workloads.real_clients.consumer import Member
from harness.workloads.real_clients.java import JavaClients
from harness.workloads.real_clients.java_properties import of_consumer, of_producer, of_transactional
from harness.workloads.real_clients.options import Options
from harness.workloads.real_clients.ports import CallFailed, ClientLost
from harness.workloads.real_clients.processing import Committing, Reached
from harness.workloads.real_clients.producer import ProducerLoop
from harness.workloads.real_clients.record import Process
from harness.workloads.real_clients.settings import Settings

Line = dict[str, Any]
Said = Line | Exception


NOTHING: Sequence[Said] = [{"records": [], "positions": {}}]


class Played:
    """A process. said: command → what each of its calls gets, events before the answer; without one an empty answer."""

    said: ClassVar[dict[str, list[Sequence[Said]]]] = {}
    started: ClassVar[list[Played]] = []
    served: ClassVar[list[Sequence[Said]]] = []

    def __init__(self, _program: Program, on_event: Callable[[Line], None]) -> None:
        self._on_event = on_event
        self.told: list[tuple[str, Line]] = []
        Played.started.append(self)

    def _play(self, lines: Sequence[Said]) -> Line:
        answer: Line = {"answer": 0, "member": "m", "generation": 4, "records": [], "positions": {}}
        for line in lines:
            if isinstance(line, Exception):
                raise line
            if "event" in line:
                self._on_event(line)
            else:
                answer |= line
        return answer

    def ask(self, do: str, _limit_s: float, **fields: Any) -> Line:
        self.told.append((do, fields))
        waiting = self.said.get(do)
        return self._play(waiting.pop(0) if waiting else ())

    def tell(self, do: str, **fields: Any) -> None:
        self.told.append((do, fields))

    def serve(self, _wait_s: float) -> None:
        self._play(self.served.pop(0) if self.served else ())

    def close(self) -> None:
        """Nothing runs."""


@pytest.fixture(autouse=True)
def _played(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "ClientProcess", Played)
    monkeypatch.setattr("harness.workloads.real_clients.producer.OPEN_AGAIN_S", 0)
    Played.said, Played.started, Played.served = {}, [], []


class Notes:
    """A history and a run in one. done: (f, outcome, error, fields of both lines)."""

    phase = "main"

    def __init__(self) -> None:
        self.done: list[tuple[str, str, str | None, Line]] = []
        self.history = self
        self._ops = 0

    def next_process(self) -> int:
        return 1

    def invoke(self, _invocation: Invocation) -> int:
        self._ops += 1
        return self._ops

    def complete(self, _op: int, invocation: Invocation, completion: Completion) -> None:
        fields = {**invocation.fields, **completion.fields}
        self.done.append((invocation.f, completion.outcome, completion.error, fields))


def settings(promise: str = "at-least-once", assignor: str = "range") -> Settings:
    options = Options(promise=promise, client="java", assignor=assignor)
    return Settings([Address("h", 1)], "hw", "hw-out", 2, 100, 3000, -1, 1, options)


def clients(lost: list[str], promise: str = "at-least-once") -> JavaClients:
    return JavaClients(settings(promise), 3, cast(Program, None), lost.append)


def record(partition: int, offset: int, value: int) -> list[object]:
    return [partition, offset, False, encode_value(value, "hw", partition, 0).decode("latin-1")]


def member(notes: Notes) -> Member:
    process = Process(cast(RunContext, notes), "java")
    made = Member(settings(), 3, process, cast(Callable[[Process], Any], None), clients([]))
    made.consumer = made._clients.consumer(made)
    return made


GONE: Said = ClientDied("it ended; exit code -9")


def test_callbacks_come_before_the_records_of_their_poll() -> None:
    notes = Notes()
    application = member(notes)
    assigned = {"event": "assigned", "partitions": [0, 1], "member": "m", "generation": 4}
    handed_out = {"records": [record(0, 5, 100), record(0, 6, 101)], "positions": {"0": 8}}
    Played.said = {"consumer.poll": [[assigned, handed_out], NOTHING]}
    application._gather()
    assert [f for f, *_ in notes.done] == ["assign", "poll"]
    fields = notes.done[1][3]
    assert (fields["reader"], fields["member"], fields["generation"]) == ("java", "m", 4)
    assert [(one["offset"], one["value"], one["intact"]) for one in fields["records"]] == [
        (5, 100, True),
        (6, 101, True),
    ]


def test_position_is_what_the_client_says_it_is() -> None:
    notes = Notes()
    application = member(notes)
    # Between them the client passed over what it hands out to nobody, a marker for one.
    Played.said = {
        "consumer.poll": [
            [{"records": [record(0, 5, 100)], "positions": {"0": 8}}],
            NOTHING,
            [{"records": [record(0, 9, 101)], "positions": {"0": 10}}],
            NOTHING,
        ]
    }
    for _ in range(2):
        application._gather()
        application._gathered.clear()
    polls = [fields for f, _, _, fields in notes.done if f == "poll"]
    assert [(one["client_position"], one["next_position"]) for one in polls] == [(5, 8), (8, 10)]


def test_client_that_goes_back_is_seen_to() -> None:
    notes = Notes()
    application = member(notes)
    Played.said = {
        "consumer.poll": [
            [{"records": [record(0, 5, 100)], "positions": {"0": 6}}],
            NOTHING,
            [{"records": [record(0, 2, 90)], "positions": {"0": 3}}],
            NOTHING,
        ]
    }
    for _ in range(2):
        application._gather()
        application._gathered.clear()
    assert notes.done[-1][3]["client_position"] == 2


@pytest.mark.parametrize("answer", [GONE, CallRefused(Failure("CommitFailedException"))])
def test_commit_that_did_not_come_out_well_is_unknown(answer: Exception) -> None:
    notes = Notes()
    application = member(notes)
    application.consumer.member = "m"  # type: ignore[misc]
    application.uncommitted = {0: 7}
    Played.said = {"consumer.commit": [[answer]]}
    Committing("at-least-once", Reached()).take(application, ())
    error = "client-died" if answer is GONE else "client-error"
    assert [one[:3] for one in notes.done] == [("commit_offsets", "info", error)]


@pytest.mark.parametrize(
    ("event", "outcome", "uncommitted"),
    [({}, "ok", {}), ({"class": "RetriableCommitFailedException", "error": None}, "info", {0: 7})],
)
def test_commit_that_nobody_waits_for_is_over_with_its_callback(
    event: Line, outcome: str, uncommitted: dict[int, int]
) -> None:
    notes = Notes()
    application = member(notes)
    application.settings = replace(application.settings, options=Options(client="java", commits="async"))
    application.consumer.member = "m"  # type: ignore[misc]
    application.uncommitted = {0: 7}
    committed = {"event": "committed", **event}
    Played.said = {"consumer.poll": [[committed]]}
    processing = Committing("at-least-once", Reached())
    processing.take(application, ())
    assert notes.done == []
    application._gather()
    assert [one[:2] for one in notes.done] == [("commit_offsets", outcome)]
    assert application.uncommitted == uncommitted


def test_process_that_is_gone_is_said_once_and_replaced_by_the_next_client() -> None:
    lost: list[str] = []
    application = clients(lost, "exactly-once")
    producer = application.transactional(lambda *_: None)
    Played.said = {"producer.commit": [[GONE]]}
    with pytest.raises(ClientLost) as failed:
        producer.commit()
    assert (failed.value.error, failed.value.again, failed.value.aborts) == ("client-died", False, False)
    producer.give_up()
    with pytest.raises(ClientLost):
        producer.begin()
    assert lost == ["the Java client 3: it ended; exit code -9"]
    application.transactional(lambda *_: None)
    assert len(Played.started) == 2


def test_process_is_started_once_and_has_made_a_client_before_there_is_load() -> None:
    application = clients([])
    application.start()
    application.wait_started()
    application.sender(lambda *_: None)
    (process,) = Played.started
    assert [do for do, _ in process.told] == ["producer.open", "producer.close", "producer.open"]


def test_process_that_dies_before_there_is_load_is_replaced() -> None:
    lost: list[str] = []
    application = clients(lost)
    Played.said = {"producer.open": [[GONE]]}
    application.start()
    application.wait_started()
    application.sender(lambda *_: None)
    assert (len(lost), len(Played.started)) == (1, 2)


def test_client_that_cannot_be_made_is_no_client_that_is_gone() -> None:
    Played.said = {"producer.open": [[CallRefused(Failure("ConfigException", message="no such"))]]}
    with pytest.raises(RuntimeError, match=r"producer\.open: ConfigException: no such"):
        clients([]).sender(lambda *_: None)


def test_error_of_a_transaction_says_what_may_follow() -> None:
    producer = clients([], "exactly-once").transactional(lambda *_: None)
    Played.said = {"producer.commit": [[CallRefused(Failure("TimeoutException"))]]}
    with pytest.raises(CallFailed) as failed:
        producer.commit()
    assert (failed.value.error, failed.value.again) == ("timeout", True)


def test_offsets_are_sent_for_the_member_that_was_given_the_records() -> None:
    notes = Notes()
    application = member(notes)
    whose = application.consumer.whose()
    producer = application._clients.transactional(lambda *_: None)
    producer.send_offsets({0: 7}, whose)
    do, fields = Played.started[-1].told[-1]
    assert (do, fields["offsets"], fields["group"]) == ("producer.offsets", [["hw", 0, 7]], "hw-app")


def produced(served: list[Sequence[Said]], steps: int, promise: str = "at-least-once") -> Notes:
    """A loop of so many records."""
    notes, left = Notes(), iter(range(steps))
    Played.served = served
    process = Process(cast(RunContext, notes), "java")
    loop = ProducerLoop(settings(promise), 3, process, 1e6, clients([], promise))
    loop.run(lambda: next(left, None) is not None)
    return notes


def test_record_is_delivered_where_its_callback_says() -> None:
    lines = [{"event": "delivered", "number": 1, "offset": 12}], [{"event": "delivered", "number": 2, "offset": -1}]
    notes = produced(list(lines), 2)
    assert [(outcome, fields.get("base_offset")) for _, outcome, _, fields in notes.done] == [("ok", 12), ("ok", None)]


def test_records_under_way_in_a_process_that_dies_are_unknown_and_none_is_lost() -> None:
    delivered = {"event": "delivered", "number": 1, "offset": 12}
    notes = produced([[delivered], [GONE], [{"event": "delivered", "number": 3, "offset": 13}]], 3)
    assert [one[:3] for one in notes.done] == [
        ("send", "ok", None),
        ("send", "info", "client-died"),
        ("send", "ok", None),
    ]
    assert len(Played.started) == 2


@pytest.mark.parametrize(
    ("kind", "outcome", "opened"), [("TimeoutException", "fail", 1), ("KafkaException", "info", 2)]
)
def test_producer_that_takes_nothing_any_more_is_closed(kind: str, outcome: str, opened: int) -> None:
    failed = {"event": "failed", "number": 1, "class": kind, "error": None, "causes": [], "message": "", "inside": True}
    notes = produced([[failed]], 2)
    assert notes.done[0][1] == outcome
    assert [do for do, _ in Played.started[0].told].count("producer.open") == opened
    assert len(Played.started) == 1


@pytest.mark.parametrize("promise", ["at-most-once", "at-least-once", "exactly-once"])
def test_java_is_set_up_for_the_promise(promise: str) -> None:
    producer, consumer = of_producer(settings(promise), 0), of_consumer(settings(promise), 0)
    once = promise == "at-most-once"
    assert (producer.get("retries"), producer["enable.idempotence"]) == ((0, False) if once else (None, True))
    # Otherwise the client refuses them.
    for one in (producer, of_transactional(settings(promise), 0)):
        numbers = {name: one[name] for name in ("delivery.timeout.ms", "request.timeout.ms", "linger.ms")}
        delivery, request, linger = cast(tuple[int, int, int], tuple(numbers.values()))
        assert delivery >= request + linger
    assert consumer["isolation.level"] == ("read_committed" if promise == "exactly-once" else "read_uncommitted")
    assert consumer["enable.auto.commit"] is False


def test_assignors_of_both_libraries_are_the_same() -> None:
    for assignor, name in (("range", "RangeAssignor"), ("cooperative-sticky", "CooperativeStickyAssignor")):
        both = settings(assignor=assignor)
        assert str(of_consumer(both, 0)["partition.assignment.strategy"]).endswith(f".{name}")
        assert both.of_consumer(0)["partition.assignment.strategy"] == assignor


def test_static_members_have_one_instance_each_in_both_libraries_and_in_transactions() -> None:
    dynamic = settings()
    static = replace(dynamic, options=replace(dynamic.options, membership="static"))
    assert of_consumer(static, 2)["group.instance.id"] == static.of_consumer(2)["group.instance.id"] == "hw-app-2"
    assert "group.instance.id" not in {**of_consumer(dynamic, 2), **dynamic.of_consumer(2)}
    application = JavaClients(static, 2, cast(Program, None), lambda _reason: None)
    whose = application.consumer(member(Notes())).whose()
    assert cast(dict[str, object], whose)["instance"] == "hw-app-2"
