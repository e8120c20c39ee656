"""A logical process of the workload `idempotent`: append-poll's, which also asks for producer ids and sends batches
that carry one.

Decides the bytes of a batch. Must not know which request is wrong on purpose. Invariant: every request of a batch has
the same bytes, whichever process, thread and connection sends it; an identity belongs to its producer, and goes on when
a process ends after an `info`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from broker.wire.records import NewRecord, encode_batch
from harness.clients.connection import ClientError, Connection
from harness.clients.requests import init_producer, produce_batch
from harness.clients.values import encode_value
from harness.operations import outcomes
from harness.operations.generator import Op
from harness.operations.op import Completion, Invocation
from harness.workloads.append_poll import completions
from harness.workloads.append_poll.client import RESPONSE_GRACE_MS, AppendPollClient, ProcessSettings, Shared
from harness.workloads.idempotent.producer import Identity, Request

ACKS_ALL = -1


@dataclass(slots=True)
class Identities:
    """What InitProducerId returned: (producer, which of its requests) → (id, epoch). Written once each, by the thread
    that asked; read by those that send after it.

    origin_ms: wall clock at the run's load, from which records are dated.
    """

    known: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    origin_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)

    def of(self, identity: Identity) -> tuple[int, int]:
        """Producer id and epoch. The producer raises the epoch itself (KIP-360)."""
        producer_id, epoch = self.known[identity.producer, identity.asked]
        return producer_id, epoch + identity.bumps


class IdempotentClient:
    """One process; implements `harness.operations.interpreter.Client`. Used by one thread.

    Ops without a `Request` are carried out as append-poll's: polls, list_offsets, and the sentinels at the end.
    """

    def __init__(
        self,
        process: int,
        thread: int,
        settings: ProcessSettings,
        shared: Shared,
        identities: Identities,
        phase: Callable[[], str],
    ) -> None:
        self._plain = AppendPollClient(process, thread, settings, shared, phase)
        self._settings = settings
        self._identities = identities
        self._phase = phase
        self._rng = Random(settings.seed * 1_000_033 + process)
        self._request: Request | None = None
        self._connection: Connection | None = None
        self._error: str | None = None

    def resolve(self, op: Op) -> Invocation:
        """Find the broker and connect to it; an error makes the operation fail before anything was sent."""
        self._request = op.detail if isinstance(op.detail, Request) else None
        if self._request is None:
            return self._plain.resolve(op)
        if op.f == "init_producer":
            return self._resolve_anywhere(op)
        invocation = self._plain.resolve(op)
        request = self._request
        producer_id, epoch = self._identities.of(request.identity)
        fields = {
            **invocation.fields,
            "acks": ACKS_ALL,
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "sequence": request.sequence,
            "timestamp": self._stamp_ms(request),
        }
        if request.repeats is not None:
            fields["resends"] = request.repeats
        return Invocation(
            invocation.process, op.f, invocation.phase, invocation.topic, op.partition, invocation.node, fields
        )

    def _resolve_anywhere(self, op: Op) -> Invocation:
        """Any broker hands out producer ids."""
        cluster = self._settings.cluster
        broker_id = self._rng.choice(sorted(cluster.addresses))
        self._connection, self._error = self._plain.connect_to(broker_id)
        fields: dict[str, object] = {"transactional_id": None}
        return Invocation(self._plain.process, op.f, self._phase(), None, None, cluster.names[broker_id], fields)

    def invoke(self, invocation: Invocation) -> Completion:
        """One request over the connection that `resolve` made."""
        request = self._request
        if request is None:
            return self._plain.invoke(invocation)
        if invocation.f == "init_producer":
            return self._ask(request)
        return self._plain.carry_out(invocation, lambda connection: self._send(connection, invocation, request))

    def _ask(self, request: Request) -> Completion:
        connection, error = self._connection, self._error
        if connection is None:
            return Completion(outcomes.read_outcome(error), time.monotonic_ns(), error)
        try:
            made = init_producer(connection, self._deadline_ns())
        except ClientError as failure:
            return Completion(outcomes.read_outcome(failure.error), failure.at_ns, failure.error)
        if made.error is not None:
            return Completion(outcomes.read_outcome(made.error), made.at_ns, made.error)
        identity = request.identity
        self._identities.known[identity.producer, identity.asked] = made.producer_id, made.producer_epoch
        fields = {"producer_id": made.producer_id, "producer_epoch": made.producer_epoch}
        return Completion("ok", made.at_ns, None, fields)

    def _send(self, connection: Connection, invocation: Invocation, request: Request) -> Completion:
        topic, partition = invocation.home
        produced = produce_batch(
            connection,
            topic,
            partition,
            self._batch(invocation, request),
            acks=ACKS_ALL,
            timeout_ms=self._settings.request_timeout_ms,
            deadline_ns=self._deadline_ns(),
        )
        return completions.of_send(produced)

    def _batch(self, invocation: Invocation, request: Request) -> bytes:
        topic, partition = invocation.home
        values = invocation.fields["values"]
        assert isinstance(values, list)
        producer_id, epoch = self._identities.of(request.identity)
        return encode_batch(
            [NewRecord(None, encode_value(value, topic, partition, self._settings.record_bytes)) for value in values],
            timestamps=self._stamp_ms(request),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=request.sequence,
        )

    def _stamp_ms(self, request: Request) -> int:
        """When the batch was born, whichever of its requests this is."""
        return self._identities.origin_ms + request.born_ns // 1_000_000

    def _deadline_ns(self) -> int:
        return time.monotonic_ns() + (self._settings.request_timeout_ms + RESPONSE_GRACE_MS) * 1_000_000

    def close(self) -> None:
        """Close every connection; leaders and positions are saved for the thread's next process."""
        self._plain.close()
