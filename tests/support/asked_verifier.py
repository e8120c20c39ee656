"""A verifier that keeps what leaders ask, until the test answers."""

from __future__ import annotations

from collections.abc import Callable

from broker.model.ids import TopicPartition
from broker.wire.errors import ErrorCode


class AskedVerifier:
    """Satisfies `replicas.ports.TransactionVerifier`."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int, TopicPartition]] = []
        self._waiting: list[Callable[[ErrorCode], None]] = []

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partition: TopicPartition,
        on_result: Callable[[ErrorCode], None],
    ) -> None:
        self.asked.append((transactional_id, producer_id, epoch, partition))
        self._waiting.append(on_result)

    def answer(self, error: ErrorCode = ErrorCode.NONE, which: int = 0) -> None:
        """which: of the questions that wait, the oldest first."""
        self._waiting.pop(which)(error)
