"""The last life of each topic that is made anew: found out, written to once more, and read whole in each round of the
drain.

Decides for how long an administrator goes on until the topic is there, and a broker has to hear of it. Invariant: each
request is an operation of the history.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from harness.clients import topic_requests
from harness.clients.admin import Admin
from harness.clients.connection import ClientError, Connection
from harness.clients.router import Cluster
from harness.operations import outcomes
from harness.operations.generator import Op
from harness.operations.history import History
from harness.operations.interpreter import Client
from harness.operations.op import Completion, Invocation
from harness.workloads.append_poll.drain import Drain, Resolve
from harness.workloads.append_poll.generators import SENTINELS
from harness.workloads.append_poll.leader_rotation import current_leaders
from harness.workloads.asked import asked
from harness.workloads.recreate.client import Lives
from harness.workloads.recreate.generators import VALUES
from harness.workloads.recreate.lives import ASK

PAUSE_S = 0.2
HEARD_S = 10.0
"""Within how long a broker whose controller is there has heard of a topic."""
ROUND_S = 20.0
"""For each topic and round of a drain at most: one that no broker leads is not waited for as the run's own is."""
UNHEARD_S = 1.0
"""For one of which no broker has heard."""


class LastLives:
    """Not thread-safe. next_process: a process number that nobody has used."""

    def __init__(
        self,
        clusters: Sequence[Cluster],
        partitions: int,
        lives: Lives,
        history: History,
        next_process: Callable[[], int],
        open_administrator: Callable[[int], Client],
        open_sender: Callable[[int], Client],
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """open_administrator, open_sender: a client for a process of this number."""
        self._clusters = clusters
        self._partitions = partitions
        self._lives = lives
        self._history = history
        self._next_process = next_process
        self._open_administrator = open_administrator
        self._open_sender = open_sender
        self._sleep = sleep
        self._sentinels: list[dict[int, int]] = [{} for _ in clusters]
        self._values = self._fresh_values()
        self._drains: list[tuple[Drain, Admin]] = []
        self._unheard: set[int] = set()

    def settle(self, limit_s: float) -> None:
        """Make what is gone, and find out what is not known, for at most limit_s; no topic is deleted any more."""
        end_s = time.monotonic() + limit_s
        for nth in range(len(self._clusters)):
            life = self._lives.of(nth)
            if life.stage == "there":
                # It is not to be deleted because its time is over.
                self._lives.set(nth, replace(life, lives_ns=1 << 62))
                continue
            while self._lives.of(nth).stage != "there" and time.monotonic() < end_s:
                self._one(self._open_administrator, Op(0, 0, ASK, -1, detail=nth))
                self._sleep(PAUSE_S)

    def write(self, limit_s: float) -> None:
        """One acknowledged record to each partition, tried for at most limit_s in all."""
        end_s = time.monotonic() + limit_s
        for nth in range(len(self._clusters)):
            for partition in range(self._partitions):
                while time.monotonic() < end_s:
                    place = nth * self._partitions + partition
                    op = Op(0, 0, "send", place, (next(self._values),), sentinel=True)
                    sent = self._one(self._open_sender, op)
                    if sent.outcome == "ok":
                        break
                    self._sleep(PAUSE_S)
        for nth, cluster in enumerate(self._clusters):
            topic_id = self._lives.of(nth).topic_id
            drain = Drain(
                cluster,
                self._history,
                self._next_process,
                self._lives.shared(topic_id).sentinels,
                sleep=self._sleep,
                topic_id=topic_id,
            )
            self._drains.append((drain, Admin(cluster, sleep=self._sleep)))

    def read(self) -> None:
        """Ask every broker for each topic's id, until it has heard of it, and read each topic whole by both readers.

        One of which no broker had heard, when all could be asked, is lost: from then on it is asked for, and tried to
        be read, once a round, until a broker tells it after all.
        """
        answers = [self._ask(broker_id) for broker_id in sorted(self._clusters[0].addresses)]
        for nth in range(len(self._clusters)):
            told = [answer.get(nth) for answer in answers]
            if True in told:
                self._unheard.discard(nth)
            elif None not in told:
                self._unheard.add(nth)
        for nth, (drain, admin) in enumerate(self._drains):
            limit_s = UNHEARD_S if nth in self._unheard else ROUND_S
            drain.round(list(range(self._partitions)), current_leaders(admin), limit_s)

    def close(self) -> None:
        """Close every connection."""
        for _, admin in self._drains:
            admin.close()
        self._drains = []

    def _one(self, open_client: Callable[[int], Client], op: Op) -> Completion:
        client = open_client(self._next_process())
        try:
            invocation = client.resolve(op)
            index = self._history.invoke(invocation)
            completion = client.invoke(invocation)
            self._history.complete(index, invocation, completion)
            return completion
        finally:
            client.close()

    def _ask(self, broker_id: int) -> dict[int, bool]:
        """Of each topic that the broker could be asked for: whether it told the id that it has."""
        heard: dict[int, bool] = {}
        connection = Connection(self._clusters[0].addresses[broker_id], "highwater-last-lives")
        try:
            for nth, cluster in enumerate(self._clusters):
                end_s = time.monotonic() + (0.0 if nth in self._unheard else HEARD_S)
                while True:
                    told = self._told(connection, broker_id, cluster.topic)
                    if told is None:
                        # The rotation has stopped it.
                        return heard
                    heard[nth] = told == self._lives.of(nth).topic_id
                    if heard[nth] or time.monotonic() >= end_s:
                        break
                    self._sleep(PAUSE_S)
        finally:
            connection.close()
        return heard

    def _told(self, connection: Connection, broker_id: int, topic: str) -> str | None:
        """The id that the broker told, empty for none; None where it cannot be asked."""
        node, phase = self._clusters[0].names[broker_id], self._history.phase
        invocation = Invocation(self._next_process(), ASK, phase, topic, None, node)
        done = asked(self._history, invocation, connection, int(HEARD_S * 1e3), lambda: _id_of(connection, topic))
        return None if done.error in outcomes.NOTHING_SENT else str(done.fields.get("topic_id", ""))

    @staticmethod
    def _fresh_values() -> Iterator[int]:
        value = SENTINELS + VALUES
        while True:
            yield value
            value += 1


def _id_of(connection: Connection, topic: str) -> Completion:
    try:
        told = topic_requests.id_of(connection, topic, time.monotonic_ns() + int(HEARD_S * 1e9))
    except ClientError as failure:
        return Completion(outcomes.read_outcome(failure.error), failure.at_ns, failure.error)
    fields = {"topic_id": told.topic_id} if told.topic_id else {}
    return Completion(outcomes.read_outcome(told.error), told.at_ns, told.error, fields)


class DrainWithLives(Drain):
    """A drain of the run's own topic, whose rounds read the topics that were made anew as well."""

    def __init__(
        self,
        cluster: Cluster,
        history: History,
        next_process: Callable[[], int],
        sentinels: Mapping[int, int],
        read: Callable[[], None],
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(cluster, history, next_process, sentinels, sleep=sleep)
        self._read = read

    def round(self, partitions: list[int], resolve: Resolve, limit_s: float) -> int:
        """As the drain's. What could not be read of topics that were made anew counts for nothing here."""
        incomplete = super().round(partitions, resolve, limit_s)
        self._read()
        return incomplete
