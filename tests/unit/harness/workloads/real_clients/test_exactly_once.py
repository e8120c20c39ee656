"""What becomes of an application's transaction, with a producer of librdkafka's that is played."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from harness.clients.connection import Address
from harness.operations.op import Completion, Invocation
from harness.workloads.base import RunContext
from harness.workloads.real_clients import librdkafka
from harness.workloads.real_clients.consumer import BeginAnew, Member
from harness.workloads.real_clients.exactly_once import Transforming, take_ids
from harness.workloads.real_clients.librdkafka import LibrdkafkaConsumer, LibrdkafkaTransactional
from harness.workloads.real_clients.options import Options
from harness.workloads.real_clients.ports import Clients, Record
from harness.workloads.real_clients.processing import Reached
from harness.workloads.real_clients.record import Process
from harness.workloads.real_clients.settings import Settings

RECORDS = (Record(0, 5, 100, True), Record(0, 6, 101, True))
SETTINGS = Settings([Address("h", 1)], "hw", "hw-out", 2, 100, 3000, -1, 1, Options(promise="exactly-once"))
RETRIABLE = KafkaError(KafkaError._TIMED_OUT, "", False, True, False)
ABORTABLE = KafkaError(KafkaError.ILLEGAL_GENERATION, "", False, False, True)
FATAL = KafkaError(KafkaError._FENCED, "", True, False, False)
UNSENT_ERROR = KafkaError(KafkaError._MSG_TIMED_OUT)


class Notes:
    """A history and a run in one."""

    phase = "main"

    def __init__(self) -> None:
        self.done: list[tuple[str, object, str]] = []
        self.ids: list[object] = []
        self.history = self
        self._ops = count()
        self._processes = count(1)

    def next_process(self) -> int:
        return next(self._processes)

    def invoke(self, _invocation: Invocation) -> int:
        return next(self._ops)

    def complete(self, _op: int, invocation: Invocation, completion: Completion) -> None:
        self.done.append((invocation.f, invocation.fields.get("commit"), completion.outcome))
        self.ids.append(invocation.fields.get("transactional_id"))


class Consumer:
    def __init__(self) -> None:
        self.id = "m"
        self.sought: list[tuple[int, int]] = []

    def subscribe(self, _topics: Sequence[str], **_callbacks: Callable[[Any, Any], None]) -> None:
        """No callback comes."""

    def memberid(self) -> str:
        return self.id

    def consumer_group_metadata(self) -> str:
        return "whose"

    def seek(self, to: TopicPartition) -> None:
        self.sought.append((to.partition, to.offset))


class Message:
    def offset(self) -> int:
        return 9


class Producer:
    """errors: call → what its next calls raise, in order; delivery → what records come out with. Callbacks come when
    the commit waits for them.
    """

    def __init__(self, **errors: Sequence[KafkaError]) -> None:
        self.undelivered = next(iter(errors.pop("delivery", ())), None)
        self.errors = {call: list(found) for call, found in errors.items()}
        self.callbacks: list[Callable[[Any, Any], None]] = []
        self.hangs = threading.Event()
        self.hangs.set()

    def _call(self, name: str) -> None:
        if self.errors.get(name):
            raise KafkaException(self.errors[name].pop(0))

    def init_transactions(self, _limit_s: float) -> None:
        self._call("init")

    def begin_transaction(self) -> None:
        self._call("begin")

    def produce(self, _topic: str, *, value: bytes, partition: int, on_delivery: Callable[[Any, Any], None]) -> None:
        assert value
        assert partition == 0
        self.callbacks.append(on_delivery)

    def send_offsets_to_transaction(self, offsets: Sequence[TopicPartition], whose: object, _limit_s: float) -> None:
        assert (whose, [(one.partition, one.offset) for one in offsets]) == ("whose", [(0, 7)])
        self._call("offsets")
        self.hangs.wait()

    def commit_transaction(self, _limit_s: float) -> None:
        for callback in self.callbacks:
            callback(self.undelivered, Message())
        self.callbacks.clear()
        self._call("commit")

    def abort_transaction(self, _limit_s: float) -> None:
        self._call("abort")

    def poll(self, _wait_s: float) -> None:
        self._call("poll")

    def purge(self) -> None:
        """Nothing is left."""

    def flush(self, _limit_s: float) -> None:
        self._call("flush")


def take(producer: Producer, consumer: Consumer) -> tuple[Notes, Reached, Member]:
    notes, reached = Notes(), Reached()
    process, clients = Process(cast(RunContext, notes), "confluent"), cast(Clients, None)
    member = Member(SETTINGS, 0, process, cast(Callable[[Process], Any], None), clients)
    member.consumer = LibrdkafkaConsumer(SETTINGS, consumer, member)
    processing = Transforming(SETTINGS, 0, process, reached, count(1), clients)
    processing._producer = LibrdkafkaTransactional(SETTINGS, producer, processing._delivered)
    try:
        processing.take(member, RECORDS)
    except BeginAnew:
        notes.done.append(("begin anew", None, ""))
        processing.close()
    return notes, reached, member


SENT = [("send", None, "ok")] * 2
UNSENT = [("send", None, "info")] * 2


@pytest.mark.parametrize("errors", [{}, {"begin": [RETRIABLE], "offsets": [RETRIABLE], "commit": [RETRIABLE]}])
def test_transaction_has_outputs_and_offsets_and_is_tried_until_it_is_committed(errors: dict[str, Any]) -> None:
    consumer = Consumer()
    notes, reached, _ = take(Producer(**errors), consumer)
    assert notes.done == [("txn_offsets", None, "ok"), *SENT, ("end_txn", True, "ok")]
    assert (reached.offsets, consumer.sought) == ({0: 7}, [])


@pytest.mark.parametrize(
    ("errors", "ended"),
    [
        ({"offsets": [ABORTABLE]}, [("txn_offsets", None, "info")]),
        (
            {"delivery": [UNSENT_ERROR], "commit": [ABORTABLE]},
            [("txn_offsets", None, "ok"), *UNSENT, ("end_txn", True, "fail")],
        ),
    ],
)
def test_member_whose_transaction_is_aborted_goes_back_to_its_inputs(errors: dict[str, Any], ended: list[Any]) -> None:
    consumer = Consumer()
    notes, reached, member = take(Producer(**errors), consumer)
    unsaid = [] if "delivery" in errors else UNSENT
    assert notes.done == [*ended, ("end_txn", False, "ok"), *unsaid]
    assert (reached.offsets, consumer.sought, member.consumer_name(0)) == ({}, [(0, 5)], "hw-app/0/1")


@pytest.mark.parametrize(
    "errors",
    [
        {"commit": [FATAL]},
        {"delivery": [UNSENT_ERROR], "commit": [ABORTABLE], "abort": [FATAL]},
        # All is delivered: what it wants to abort may be committed.
        {"commit": [ABORTABLE]},
        {"commit": [RETRIABLE, ABORTABLE]},
        # Whatever serves callbacks raises it too, in place of the error callback.
        {"commit": [FATAL], "flush": [FATAL]},
        {"delivery": [UNSENT_ERROR], "commit": [ABORTABLE], "abort": [FATAL], "poll": [FATAL], "flush": [FATAL]},
    ],
)
def test_member_that_does_not_know_what_became_of_its_transaction_begins_anew(errors: dict[str, Any]) -> None:
    consumer = Consumer()
    notes, reached, _ = take(Producer(**errors), consumer)
    assert notes.done[-1] == ("begin anew", None, "")
    commits = [outcome for f, commit, outcome in notes.done if f == "end_txn" and commit]
    assert commits == ["fail" if "delivery" in errors else "info"]
    # What is committed says where to go on; going back could do what is done once more.
    assert (reached.offsets, consumer.sought) == ({}, [])


def test_records_of_no_member_are_in_no_transaction() -> None:
    consumer = Consumer()
    consumer.id = ""
    notes, _, _ = take(Producer(), consumer)
    assert notes.done == [("begin anew", None, "")]


def test_every_transactional_id_is_taken_once_more_and_the_history_says_whether_it_was() -> None:
    """Only then a transaction that stays open is one that nothing ends (`hanging-transaction`)."""
    notes = Notes()
    found = {"a": Producer(init=[RETRIABLE]), "b": Producer(init=[FATAL]), "c": Producer()}
    takers = {id_: LibrdkafkaTransactional(SETTINGS, producer, lambda *_: None) for id_, producer in found.items()}
    take_ids(takers, Process(cast(RunContext, notes), "confluent"))
    assert notes.done == [("init_producer", None, outcome) for outcome in ("ok", "info", "ok")]
    assert notes.ids == ["a", "b", "c"]


def test_call_that_does_not_come_back_is_given_up_with_its_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka's issues 5456 and 5511: seen with a coordinator that was cut from ZooKeeper."""
    monkeypatch.setattr(librdkafka, "HUNG_S", 0.05)
    producer = Producer()
    producer.hangs.clear()
    notes, reached, _ = take(producer, Consumer())
    producer.hangs.set()
    assert notes.done == [("txn_offsets", None, "info"), *UNSENT, ("begin anew", None, "")]
    assert reached.offsets == {}
