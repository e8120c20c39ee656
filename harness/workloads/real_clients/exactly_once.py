"""Consume, transform, produce: outputs and the offsets of their inputs are committed in one transaction (KIP-447).

Decides what an error of a call means. After one that asks for it the transaction is aborted, and the member goes back
to its inputs. After any other that another try does not repair, what became of the transaction is not known: producer
and consumer are given up, and the next consumer begins at what is committed, for which it waits until the transaction
is over (KIP-447). Must not know how records are gathered.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any

from harness.clients.values import encode_value
from harness.operations import outcomes
from harness.operations.op import Outcome
from harness.workloads.groups.offsets import offsets_field
from harness.workloads.real_clients.consumer import BeginAnew, Member, Record
from harness.workloads.real_clients.processing import Reached, ends_of, error_name
from harness.workloads.real_clients.producer import offset_field
from harness.workloads.real_clients.record import Begun, Process
from harness.workloads.real_clients.settings import Settings

OUTPUTS_FROM = 10**11
"""Outputs are values from here on, of each member and transaction its own."""
CALL_S = 5.0
TRIES_S = 12.0


class _Failed(Exception):
    """A call of a transaction failed. aborts: the transaction can be aborted, and was not committed."""

    def __init__(self, error: str, *, aborts: bool) -> None:
        super().__init__(error)
        self.error = error
        self.aborts = aborts


class Transforming:
    """One member's transactional producer; implements `consumer.Processing`."""

    def __init__(
        self, settings: Settings, number: int, process: Process, reached: Reached, numbers: count[int]
    ) -> None:
        """numbers: of transactions, and of outputs, unique in the run."""
        self._settings = settings
        self._number = number
        self._process = process
        self._reached = reached
        self._numbers = numbers
        self._producer: Any = None
        self._open: dict[int, Begun] = {}

    def take(self, member: Member, records: Sequence[Record]) -> None:
        """One transaction of all of them. Raises BeginAnew where it is not known what became of it."""
        # Who is no member any more has no generation by which its transaction would be refused.
        whose = member.consumer.consumer_group_metadata()
        if records and not member.consumer.memberid():
            raise BeginAnew
        try:
            if self._producer is None:
                self._make()
            if records:
                self._transaction(member, records, whose)
            else:
                self._producer.poll(0)
        except _Failed as failed:
            if not failed.aborts:
                raise BeginAnew from None
            self._back(member, records)

    def _make(self) -> None:
        from confluent_kafka import Producer

        producer = Producer(self._settings.of_transactional(self._number))
        _tried(partial(producer.init_transactions, CALL_S))
        self._producer = producer

    def _transaction(self, member: Member, records: Sequence[Record], whose: Any) -> None:
        number = next(self._numbers)
        of_it: dict[str, object] = {"transactional_id": self._settings.transactional_id(self._number), "txn": number}
        try:
            _tried(self._producer.begin_transaction)
            for record in records:
                if record.value is not None:
                    self._send(record, of_it)
            self._commit_offsets(member, ends_of(records), of_it, whose)
            self._call("end_txn", {**of_it, "commit": True}, partial(self._producer.commit_transaction, CALL_S))
        except _Failed as failed:
            if failed.aborts:
                self._call("end_txn", {**of_it, "commit": False}, partial(self._producer.abort_transaction, CALL_S))
            raise
        finally:
            # Committed or aborted, their callbacks have come; of others nothing is known.
            self._producer.poll(0)
            for index in list(self._open):
                self._over(index, "info", outcomes.TIMEOUT)
        self._reached.at_least(ends_of(records))

    def _send(self, record: Record, of_it: Mapping[str, object]) -> None:
        from confluent_kafka import KafkaException

        out, value = self._settings.out, OUTPUTS_FROM + next(self._numbers)
        fields = {"values": [value], "acks": -1, "sentinel": False, **of_it, "sources": [record.value]}
        begun = self._process.invoke("send", (out, record.partition), fields)
        self._open[begun.op] = begun
        body = encode_value(value, out, record.partition, self._settings.record_bytes)
        try:
            self._producer.produce(
                out, value=body, partition=record.partition, on_delivery=partial(self._delivered, begun.op)
            )
        except (BufferError, KafkaException) as error:
            self._over(begun.op, "fail", outcomes.CLIENT_ERROR)
            raise _Failed(outcomes.CLIENT_ERROR, aborts=isinstance(error, BufferError)) from None

    def _delivered(self, index: int, error: Any, message: Any) -> None:
        if index not in self._open:
            return
        if error is None:
            self._over(index, "ok", None, offset_field(message))
        else:
            name = str(error.name())
            self._over(index, "info", outcomes.CLIENT_ERROR if name.startswith("_") else name)

    def _over(
        self, index: int, outcome: Outcome, error: str | None, fields: Mapping[str, object] | None = None
    ) -> None:
        self._process.complete(self._open.pop(index), outcome, error, fields)

    def _commit_offsets(self, member: Member, ends: Mapping[int, int], of_it: Mapping[str, object], whose: Any) -> None:
        from confluent_kafka import TopicPartition

        topic = self._settings.topic
        offsets = [TopicPartition(topic, partition, offset) for partition, offset in ends.items()]
        fields = {**of_it, **member.identity, "generation": -1, "offsets": offsets_field(topic, ends)}
        self._call("txn_offsets", fields, partial(self._producer.send_offsets_to_transaction, offsets, whose, CALL_S))

    def _call(self, f: str, fields: Mapping[str, object], call: Callable[[], object]) -> None:
        """A call of the transaction as an operation. Raises _Failed."""
        begun = self._process.invoke(f, None, fields)
        try:
            _tried(call)
        except _Failed as failed:
            # What asks for an abort was not committed: librdkafka commits nothing of which a part failed.
            self._process.complete(begun, "fail" if failed.aborts and f == "end_txn" else "info", failed.error)
            raise
        self._process.complete(begun, "ok")

    def _back(self, member: Member, records: Sequence[Record]) -> None:
        """To the first of these in each partition that the member still has."""
        from confluent_kafka import KafkaException, TopicPartition

        firsts: dict[int, int] = {}
        for record in records:
            firsts.setdefault(record.partition, record.offset)
        member.begin_anew()
        for partition, offset in firsts.items():
            try:
                member.consumer.seek(TopicPartition(self._settings.topic, partition, offset))
            except KafkaException:
                # Taken away meanwhile: whoever has it begins at what is committed.
                continue

    def close(self) -> None:
        """Give the producer up; its open transaction is the next one's to abort, or the coordinator's."""
        if self._producer is not None:
            self._producer.purge()
            self._producer.flush(1)
            self._producer = None


def _tried(call: Callable[[], object]) -> None:
    """Make a call again while librdkafka says that this may help. Raises _Failed."""
    from confluent_kafka import KafkaException

    end_s = time.monotonic() + TRIES_S
    while True:
        try:
            call()
        except KafkaException as error:
            reason = error.args[0]
            if reason.retriable() and time.monotonic() < end_s:
                continue
            raise _Failed(error_name(error), aborts=bool(reason.txn_requires_abort())) from None
        return


def take_ids(settings: Settings, members: int) -> None:
    """Have every transactional id taken once more, which aborts what its last producer left open. What could not be
    taken shows in the last stable offsets.
    """
    from confluent_kafka import Producer

    for number in range(members):
        with suppress(_Failed):
            _tried(partial(Producer(settings.of_transactional(number)).init_transactions, CALL_S))
