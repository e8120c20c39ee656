"""Questions to coordinators wait while one is about to be able to answer.

After the end of a coordinator's process its transactions go to another broker within milliseconds. A question that
fails in between would cost the producer a pause of its own, 100 ms or a multiple, for a batch that the next
coordinator would have confirmed. So a question that cannot be answered, because its coordinator may be gone or this
broker still loads its partition, is asked once that is over, again where it failed, for half a second at most. While
no coordinator is in doubt questions go straight through, and an error is an answer. Asking changes nothing at a
coordinator. What a producer sends to one partition meanwhile waits at the gate, in order, as behind any question. Loop
thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from broker.model.ids import TopicPartition
from broker.runtime.ports import Loop
from broker.runtime.replicas.ports import TransactionVerifier
from broker.runtime.requests.condition_waits import Waits
from broker.wire.errors import ErrorCode

WAIT_MAX_MS: Final = 500.0
_AGAIN_MS: Final = 20.0
"""Until a coordinator that was elected but did not know it yet is asked again."""
_NO_ANSWER: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)


class Coming(Protocol):
    """Whoever knows which coordinators are about to be able to serve."""

    def wait_ms(self, transactional_id: str, *, look: bool = False) -> float:
        """How long that may take still, 0 or less where nothing is to be waited for. look: at the connections to other
        brokers first, whose end may not have been reported yet.
        """
        ...


class WaitingVerifier:
    """Satisfies `replicas.ports.TransactionVerifier`. `check` after every change of the metadata, of what is loaded and
    of doubts.
    """

    def __init__(self, verifier: TransactionVerifier, coming: Coming, loop: Loop) -> None:
        """verifier: asks at once, and is asked by nobody else."""
        self._verifier = verifier
        self._coming = coming
        self._loop = loop
        self._waits = Waits(loop)
        self.check = self._waits.check

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partition: TopicPartition,
        on_result: Callable[[ErrorCode], None],
    ) -> None:
        """See the protocol."""
        until_ms = self._loop.now_ms() + WAIT_MAX_MS
        waited = False

        def ask() -> None:
            self._verifier.verify(transactional_id, producer_id, epoch, partition, answered)

        def wait_or_ask() -> None:
            nonlocal waited
            wait_ms = min(self._coming.wait_ms(transactional_id), until_ms - self._loop.now_ms())
            if wait_ms <= 0:
                ask()
                return
            waited = True
            self._waits.until(lambda: self._coming.wait_ms(transactional_id) <= 0, wait_ms, ask, ask)

        def answered(error: ErrorCode) -> None:
            if error not in _NO_ANSWER or self._loop.now_ms() >= until_ms:
                on_result(error)
            elif self._coming.wait_ms(transactional_id, look=True) > 0:
                wait_or_ask()
            elif waited:
                self._loop.call_later(_AGAIN_MS, wait_or_ask)
            else:
                on_result(error)

        wait_or_ask()
