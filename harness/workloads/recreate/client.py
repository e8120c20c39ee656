"""Processes that use topics which are made anew, and those that make them: one request each.

Decides which life of a topic an operation is about, and whom an administrator asks. Every operation names the id of
that life: a poll fetches by it; a send goes by name, as Kafka's clients send, and so to this life or to a later one.
Invariants: `resolve` sends nothing of the operation; `invoke` sends at most one request.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from harness.clients import topic_requests
from harness.clients.connection import ClientError, Connection
from harness.clients.router import KEEP_AFTER_ERROR, Cluster, Router
from harness.clients.topic_requests import Told
from harness.operations import outcomes
from harness.operations.admin_outcomes import end_outcome, making_outcome
from harness.operations.generator import Op
from harness.operations.op import Completion, Invocation
from harness.workloads.append_poll.client import RESPONSE_GRACE_MS, AppendPollClient, ProcessSettings, Shared
from harness.workloads.recreate.lives import ASK, DELETE, MAKE, Life

_ELSEWHERE = frozenset({"NOT_CONTROLLER", *outcomes.NO_RESPONSE, *outcomes.NOTHING_SENT})
"""After these an administrator looks up who is controller."""
LATE = 0.1
"""Of an administrator's questions, those in whose place it asks once more for a deletion that is over."""
_OUTCOMES = {MAKE: making_outcome, DELETE: end_outcome}


@dataclass(frozen=True, slots=True)
class Size:
    """Of every topic that is made anew."""

    partitions: int
    replicas: int


class Lives:
    """Of all topics that are made anew, by number. Used by many threads; one at a time changes a topic's."""

    def __init__(self, topics: int) -> None:
        self._lives = [Life()] * topics
        self._shared: dict[str, Shared] = {}
        self._lock = threading.Lock()

    def of(self, nth: int) -> Life:
        """As it is known now."""
        return self._lives[nth]

    def set(self, nth: int, life: Life) -> None:
        """Of its administrator alone."""
        self._lives[nth] = life

    def shared(self, topic_id: str) -> Shared:
        """What processes pass on about one life."""
        with self._lock:
            return self._shared.setdefault(topic_id, Shared())


class LifeClient:
    """A process that sends to topics that are made anew, or reads them; implements
    `harness.operations.interpreter.Client`. Used by one thread.
    """

    def __init__(
        self,
        process: int,
        thread: int,
        settings: Sequence[ProcessSettings],
        partitions: int,
        lives: Lives,
        former: float,
        phase: Callable[[], str],
    ) -> None:
        """settings: by topic. partitions: of each. former: share of polls that ask for the life before."""
        self.process = process
        self._thread = thread
        self._settings = settings
        self._partitions = partitions
        self._lives = lives
        self._former = former
        self._phase = phase
        self._rng = Random(settings[0].seed * 1_000_033 + process)
        self._clients: dict[str, AppendPollClient] = {}
        """By the id of the life: of each topic the newest and the former."""
        self._current: AppendPollClient | None = None

    def resolve(self, op: Op) -> Invocation:
        """Of the newest life, or, now and then, of the one before, as if the process had not heard of the newest."""
        nth, partition = divmod(op.partition, self._partitions)
        life = self._lives.of(nth)
        topic_id = life.topic_id
        if op.f == "poll" and life.former and self._rng.random() < self._former:
            topic_id = life.former
        self._forget(nth, life)
        if topic_id not in self._clients:
            self._clients[topic_id] = AppendPollClient(
                self.process, self._thread, self._settings[nth], self._lives.shared(topic_id), self._phase
            )
        self._current = self._clients[topic_id]
        resolved = self._current.resolve(replace(op, partition=partition))
        return replace(resolved, fields={**resolved.fields, "topic_id": topic_id})

    def _forget(self, nth: int, life: Life) -> None:
        for topic_id in [one for one in self._clients if one in life.earlier and one != life.former]:
            self._clients.pop(topic_id).close()

    def invoke(self, invocation: Invocation) -> Completion:
        """One request over the connection that `resolve` made."""
        assert self._current is not None
        return self._current.invoke(invocation)

    def close(self) -> None:
        """Close every connection."""
        for client in self._clients.values():
            client.close()


class RecreateClient:
    """A process that is a topic's administrator; implements `harness.operations.interpreter.Client`."""

    def __init__(
        self,
        process: int,
        clusters: Sequence[Cluster],
        size: Size,
        lives: Lives,
        life_s: float,
        request_timeout_ms: int,
        seed: int,
        phase: Callable[[], str],
    ) -> None:
        """clusters: by topic. life_s: how long a topic lives on average: each between half as long and half as long
        again.
        """
        self.process = process
        self._clusters = clusters
        self._size = size
        self._lives = lives
        self._life_s = life_s
        self._timeout_ms = request_timeout_ms
        self._phase = phase
        self._rng = Random(seed * 1_000_037 + process)
        self._router = Router(clusters[0], f"highwater-admin-{process}", self._rng)
        self._controller: int | None = None
        self._connection: Connection | None = None
        self._error: str | None = None
        self._topic = 0
        self._late = False
        """Whether it asks once more for the deletion of the life before, as somebody whose request was under way."""

    def resolve(self, op: Op) -> Invocation:
        """What is due for the topic that op.detail numbers, by what is known of it, and at whom."""
        assert isinstance(op.detail, int)
        self._topic = op.detail
        life = self._lives.of(self._topic)
        f = life.next(time.monotonic_ns())
        self._late = f == ASK and life.stage == "there" and bool(life.former) and self._rng.random() < LATE
        f = DELETE if self._late else f
        # What is not sure the controller knows first.
        anybody = f == ASK and life.stage == "there"
        broker_id = self._rng.choice(sorted(self._clusters[0].addresses)) if anybody else self._known_controller()
        self._connect(broker_id)
        node = None if broker_id is None else self._clusters[0].names[broker_id]
        if not self._late:
            self._lives.set(self._topic, life.begun(f))
        fields = {"topic_id": life.former if self._late else life.topic_id} if f == DELETE else {}
        return Invocation(self.process, f, self._phase(), self._clusters[self._topic].topic, None, node, fields)

    def _known_controller(self) -> int | None:
        if self._controller is None:
            state = self._router.refresh()
            if state is not None and state.controller in self._clusters[0].addresses:
                self._controller = state.controller
        return self._controller

    def _connect(self, broker_id: int | None) -> None:
        self._connection, self._error = None, outcomes.NO_LEADER
        if broker_id is not None:
            self._connection, self._error = self._router.connected(broker_id, self._timeout_ms)

    def invoke(self, invocation: Invocation) -> Completion:
        """One request over the connection that `resolve` made; the topic's life goes on by its answer."""
        told = self._ask(invocation)
        outcome = _OUTCOMES.get(invocation.f, outcomes.read_outcome)(told.error)
        if told.error in _ELSEWHERE and self._rng.random() >= KEEP_AFTER_ERROR:
            self._controller = None
        if not self._late:
            lives_ns = int(self._life_s * self._rng.uniform(0.5, 1.5) * 1e9)
            life = self._lives.of(self._topic)
            life = life.after(invocation.f, outcome, told.error, told.topic_id, told.at_ns, lives_ns)
            self._lives.set(self._topic, life)
        return Completion(outcome, told.at_ns, told.error, {"topic_id": told.topic_id} if told.topic_id else {})

    def _ask(self, invocation: Invocation) -> Told:
        if self._connection is None:
            return Told(self._error, "", time.monotonic_ns())
        assert invocation.topic is not None
        deadline_ns = time.monotonic_ns() + (self._timeout_ms + RESPONSE_GRACE_MS) * 1_000_000
        try:
            match invocation.f:
                case "create_topic":
                    return topic_requests.make(
                        self._connection,
                        invocation.topic,
                        partitions=self._size.partitions,
                        replicas=self._size.replicas,
                        timeout_ms=self._timeout_ms,
                        deadline_ns=deadline_ns,
                    )
                case "delete_topic":
                    topic_id = str(invocation.fields["topic_id"])
                    return topic_requests.delete(
                        self._connection, topic_id, timeout_ms=self._timeout_ms, deadline_ns=deadline_ns
                    )
                case _:
                    return topic_requests.id_of(self._connection, invocation.topic, deadline_ns)
        except ClientError as failure:
            return Told(failure.error, "", failure.at_ns)

    def close(self) -> None:
        """Close every connection."""
        self._router.close()
