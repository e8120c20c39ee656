"""Consume, transform, produce: outputs and the offsets of their inputs are committed in one transaction (KIP-447).

Decides what follows an error of a call. After one that asks for it the transaction is aborted, and the member goes back
to its inputs. After any other that another try does not repair, what became of the transaction is not known: producer
and consumer are given up, and the next consumer begins at what is committed, for which it waits until the transaction
is over (KIP-447). Must not know how records are gathered, nor client libraries.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count

from harness.clients.values import encode_value
from harness.operations import outcomes
from harness.operations.op import Outcome
from harness.workloads.groups.offsets import offsets_field
from harness.workloads.real_clients.consumer import BeginAnew, Member
from harness.workloads.real_clients.ports import CallFailed, Clients, Record, Transactional
from harness.workloads.real_clients.processing import Reached, ends_of
from harness.workloads.real_clients.record import Begun, Process
from harness.workloads.real_clients.settings import Settings

OUTPUTS_FROM = 10**11
"""Outputs are values from here on, of each member and transaction its own."""
TRIES_S = 12.0


class Transforming:
    """One member's transactional producer; implements `consumer.Processing`."""

    def __init__(
        self,
        settings: Settings,
        number: int,
        process: Process,
        reached: Reached,
        numbers: count[int],
        clients: Clients,
    ) -> None:
        """numbers: of transactions, and of outputs, unique in the run."""
        self._settings = settings
        self._number = number
        self._process = process
        self._reached = reached
        self._numbers = numbers
        self._clients = clients
        self._producer: Transactional | None = None
        self._open: dict[int, Begun] = {}

    def take(self, member: Member, records: Sequence[Record]) -> None:
        """One transaction of all of them. Raises BeginAnew where it is not known what became of it."""
        # Who is no member any more has no generation by which its transaction would be refused.
        whose = member.consumer.whose()
        if records and not member.consumer.member:
            raise BeginAnew
        try:
            if self._producer is None:
                self._producer = self._made()
            if records:
                self._transaction(self._producer, member, records, whose)
            else:
                self._producer.serve()
        except CallFailed as failed:
            if not failed.aborts:
                raise BeginAnew from None
            self._back(member, records)

    def _made(self) -> Transactional:
        producer = self._clients.transactional(self._delivered)
        try:
            _tried(producer.init)
        except CallFailed:
            producer.give_up()
            raise
        return producer

    def _transaction(self, producer: Transactional, member: Member, records: Sequence[Record], whose: object) -> None:
        number = next(self._numbers)
        of_it: dict[str, object] = {"transactional_id": self._settings.transactional_id(self._number), "txn": number}
        try:
            _tried(producer.begin)
            for record in records:
                if record.value is not None:
                    self._send(producer, record, record.value, of_it)
            ends = ends_of(records)
            fields = {**of_it, **member.identity, "offsets": offsets_field(self._settings.topic, ends)}
            _recorded(self._process, "txn_offsets", fields, partial(producer.send_offsets, ends, whose))
            _recorded(self._process, "end_txn", {**of_it, "commit": True}, producer.commit)
            # Committed or aborted, their callbacks have come; of others nothing is known.
            producer.serve()
        except CallFailed as failed:
            if failed.aborts:
                self._abort(producer, of_it)
            raise
        finally:
            for index in list(self._open):
                self._delivered(index, "info", outcomes.TIMEOUT, None)
        self._reached.at_least(ends_of(records))

    def _abort(self, producer: Transactional, of_it: Mapping[str, object]) -> None:
        """Raises CallFailed, after which the producer is of no more use."""
        try:
            _recorded(self._process, "end_txn", {**of_it, "commit": False}, producer.abort)
            producer.serve()
        except CallFailed as failed:
            raise CallFailed(failed.error) from None

    def _send(self, producer: Transactional, record: Record, value: int, of_it: Mapping[str, object]) -> None:
        out, output = self._settings.out, OUTPUTS_FROM + next(self._numbers)
        of_record = {"values": [output], "acks": -1, "sentinel": False, "in_order": True, "sources": [value]}
        begun = self._process.invoke("send", (out, record.partition), {**of_record, **of_it})
        self._open[begun.op] = begun
        producer.send(
            begun.op, record.partition, encode_value(output, out, record.partition, self._settings.record_bytes)
        )

    def _delivered(self, index: int, outcome: Outcome, error: str | None, offset: int | None) -> None:
        begun = self._open.pop(index, None)
        if begun is not None:
            self._process.complete(begun, outcome, error, {} if offset is None else {"base_offset": offset})

    def _back(self, member: Member, records: Sequence[Record]) -> None:
        """To the first of these in each partition that the member still has."""
        firsts: dict[int, int] = {}
        for record in records:
            firsts.setdefault(record.partition, record.offset)
        member.begin_anew()
        for partition, offset in firsts.items():
            member.consumer.seek(partition, offset)

    def close(self) -> None:
        """Give the producer up; its open transaction is the next one's to abort, or the coordinator's."""
        if self._producer is not None:
            self._producer.give_up()
            self._producer = None


def _tried(call: Callable[[], object]) -> None:
    """Make a call again while the client says that this may help. Raises CallFailed."""
    end_s = time.monotonic() + TRIES_S
    while True:
        try:
            call()
        except CallFailed as failed:
            if failed.again and time.monotonic() < end_s:
                continue
            raise
        return


def _recorded(process: Process, f: str, fields: Mapping[str, object], call: Callable[[], object]) -> None:
    """A call of the transaction as an operation. Raises CallFailed."""
    begun = process.invoke(f, None, fields)
    try:
        _tried(call)
    except CallFailed as failed:
        # What asks for an abort was not committed: a client commits nothing of which a part failed.
        process.complete(begun, "fail" if failed.aborts and f == "end_txn" else "info", failed.error)
        raise
    process.complete(begun, "ok")


def take_ids(ids: Mapping[str, Transactional], process: Process) -> None:
    """Have every transactional id taken once more, by a producer of its own, which aborts what its last producer left
    open; an operation of each says whether it was. What then is still open hangs.
    """
    for transactional_id, producer in ids.items():
        with suppress(CallFailed):
            _recorded(process, "init_producer", {"transactional_id": transactional_id}, producer.init)
