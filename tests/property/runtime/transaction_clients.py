"""Transactional producers: they repeat what may be repeated, and give up what may not, as real ones do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial

from broker.model.ids import TopicPartition
from broker.wire.errors import ErrorCode
from tests.property.runtime.transaction_world import PARTITIONS, TIMEOUT_MS, TransactionWorld

E = ErrorCode
RETRIABLE = frozenset(
    {
        E.CONCURRENT_TRANSACTIONS,
        E.COORDINATOR_LOAD_IN_PROGRESS,
        E.COORDINATOR_NOT_AVAILABLE,
        E.NOT_COORDINATOR,
        E.NOT_ENOUGH_REPLICAS,
        E.NOT_LEADER_OR_FOLLOWER,
        E.REQUEST_TIMED_OUT,
    }
)
OF_ABORTS = frozenset({E.TRANSACTION_ABORTABLE, E.INVALID_TXN_STATE, E.OUT_OF_ORDER_SEQUENCE_NUMBER})
FENCED = frozenset({E.PRODUCER_FENCED, E.INVALID_PRODUCER_EPOCH, E.INVALID_PRODUCER_ID_MAPPING})
LOST = E.REQUEST_TIMED_OUT

Answer = Callable[[ErrorCode], None]
Call = Callable[[Answer], None]
Producer = tuple[int, int]
"""(producer id, epoch)."""
Value = tuple[int, int]
"""(number of the transaction, number within it)."""


@dataclass
class Told:
    """What clients were told of the transactions, by number."""

    serial: int = 0
    decided: dict[int, bool] | None = None
    """Those whose end was acknowledged: whether by a commit."""

    def __post_init__(self) -> None:
        self.decided = {}
        self.acknowledged: dict[int, set[tuple[TopicPartition, Value]]] = defaultdict(set)


class Client:
    """One producer with a transactional id. `alive` until it is fenced, or killed."""

    def __init__(self, world: TransactionWorld, transactional_id: str, told: Told) -> None:
        self.world = world
        self.transactional_id = transactional_id
        self.told = told
        self.producer = (-1, -1)
        self.alive = True
        self._producing = False
        self._idle = False
        self._life = self._live()
        self._next: Callable[[], None] | None = partial(self._go_on, None)
        self._impatient: Answer | None = None
        """Gives up the wait for a batch, which is under way all the same: its transaction is to be aborted."""

    def step(self) -> None:
        """Send the next request, if the response to the last one is there. Now and then, do not wait for that."""
        rng = self.world.rng
        if self._next is None and self._impatient is not None and rng.random() < 0.02:
            self._impatient(E.TRANSACTION_ABORTABLE)
        if self._idle and rng.random() < 0.98:
            return
        self._idle = False
        if self._next is not None and self.alive:
            go_on, self._next = self._next, None
            go_on()

    def _go_on(self, answer: ErrorCode | None) -> None:
        try:
            call = next(self._life) if answer is None else self._life.send(answer)
        except StopIteration:
            self.alive = False
            return
        self._send(call)

    def _send(self, call: Call) -> None:
        """Whatever comes back is taken up by a later step; what comes too late, by none."""
        answered = False

        def answer(error: ErrorCode) -> None:
            nonlocal answered
            if not answered:
                answered = True
                self._impatient = None
                self._next = partial(self._go_on, error)

        if self._producing:
            self._impatient = answer

        def respond(error: ErrorCode) -> None:
            self.world.send(lambda: answer(error), lambda: answer(LOST))

        self.world.send(lambda: call(respond), lambda: answer(LOST))

    # -- what it does ----------------------------------------------------------------------------------------------

    def _live(self) -> Generator[Call, ErrorCode, None]:
        rng = self.world.rng
        while True:
            error = yield from self._repeat(self._init)
            if error:
                return
            sequences: dict[TopicPartition, int] = defaultdict(int)
            sound = True
            while sound:
                self.told.serial += 1
                serial, number = self.told.serial, 0
                for partition in rng.sample(PARTITIONS, rng.randint(1, 3)):
                    error = yield from self._repeat(partial(self._add, self.producer, partition))
                    if error:
                        return
                    for _ in range(rng.randint(0, 2)):
                        value = (serial, number)
                        number += 1
                        self._producing = True
                        error = yield from self._repeat(
                            partial(self._produce, self.producer, partition, sequences[partition], value)
                        )
                        self._producing = False
                        if error in FENCED:
                            return
                        if error:
                            assert error in OF_ABORTS, error
                            sound = False
                            break
                        sequences[partition] += 1
                        self.told.acknowledged[serial].add((partition, value))
                    if not sound:
                        break
                commit = sound and rng.random() < 0.7
                error = yield from self._repeat(partial(self._end, self.producer, commit))
                if error:
                    assert error in FENCED or error in OF_ABORTS, error
                    return
                assert self.told.decided is not None
                self.told.decided[serial] = commit
                self._idle = not sound

    def _repeat(self, call: Call) -> Generator[Call, ErrorCode, ErrorCode]:
        while True:
            error = yield call
            if error not in RETRIABLE:
                return error

    def _init(self, answer: Answer) -> None:
        def done(error: ErrorCode, producer_id: int, epoch: int) -> None:
            # Its response may be lost: then nobody has this epoch.
            self.producer = (producer_id, epoch)
            answer(error)

        self.world.coordinator.coordinator.init_producer(self.transactional_id, TIMEOUT_MS, None, done)

    def _add(self, producer: Producer, partition: TopicPartition, answer: Answer) -> None:
        coordinator = self.world.coordinator.coordinator
        coordinator.add_partitions(self.transactional_id, *producer, [partition], answer)

    def _end(self, producer: Producer, commit: bool, answer: Answer) -> None:
        self.world.coordinator.coordinator.end(self.transactional_id, *producer, commit, answer)

    def _produce(
        self, producer: Producer, partition: TopicPartition, sequence: int, value: Value, answer: Answer
    ) -> None:
        """By way of the leader's question to the coordinator, where one is due."""
        world, log = self.world, self.world.data[partition]
        guard = log.guard(*producer, sequence)

        def append() -> None:
            log.produce(*producer, sequence, value, lambda error, _: answer(error))

        if guard is None:
            append()
            return
        asked, epoch = world.coordinator, log.epoch

        def ask() -> None:
            found = asked.coordinator.verify(self.transactional_id, *producer, [partition])[partition]
            world.send(partial(hear, found), lambda: answer(E.NOT_ENOUGH_REPLICAS))

        def hear(found: ErrorCode) -> None:
            assert guard is not None
            if log.epoch != epoch:
                answer(E.NOT_LEADER_OR_FOLLOWER)
            elif found:
                answer(E.INVALID_PRODUCER_EPOCH if found is E.PRODUCER_FENCED else found)
            else:
                guard.confirm(producer[1], sequence)
                append()

        world.send(ask, lambda: answer(E.NOT_ENOUGH_REPLICAS))
