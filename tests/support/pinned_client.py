"""A producer that asks one broker only, whoever leads: what a client that was told nothing gets to hear."""

from __future__ import annotations

import contextlib
import struct
import threading
import time
from typing import NamedTuple

from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import produce
from broker.wire.records import NewRecord, encode_batch
from tests.support.brokers import Broker, wait_until
from tests.support.raw_client import RawClient, framed

MARK = b"pinned"
"""What its records hold."""
_TIMEOUT_MS = 500
_PAUSE_S = 0.04
_BATCH = bytearray(encode_batch([NewRecord(None, MARK)], timestamps=1_700_000_000_000))


class Attempt(NamedTuple):
    """sent_s: monotonic. error: None where the broker answered nothing."""

    sent_s: float
    error: int | None


class PinnedClient:
    """One record after the other to partition 0, without retries, on a thread of its own; ends with the `with`."""

    def __init__(self, broker: Broker, topic: str, acks: int) -> None:
        part = produce.ProducePartition(topic, 0, memoryview(_BATCH))
        request = produce.ProduceRequest(None, acks, _TIMEOUT_MS, [part])
        self._frame = framed(ApiKey.PRODUCE, 9, produce.encode_request(9, request))
        self._port = broker.port
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.attempts: list[Attempt] = []

    def __enter__(self) -> PinnedClient:
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        connection: RawClient | None = None
        while not self._stop.wait(_PAUSE_S):
            sent_s, error = time.monotonic(), None
            try:
                if connection is None:
                    connection = RawClient(self._port)
                connection.send(self._frame)
                (result,) = produce.decode_response(9, memoryview(connection.receive())[5:]).results
                error = result.error
            except (OSError, EOFError, struct.error):
                error = None
            self.attempts.append(Attempt(sent_s, error))
            # A broker that stands still hangs up with its refusal.
            if error != ErrorCode.NONE and connection is not None:
                with contextlib.suppress(OSError):
                    connection.close()
                connection = None
        if connection is not None:
            connection.close()

    def since(self, when_s: float) -> list[int | None]:
        """What became of those that were sent after this moment and are answered."""
        return [attempt.error for attempt in list(self.attempts) if attempt.sent_s > when_s]

    def wait_for(self, count: int, since_s: float) -> list[int | None]:
        """Until so many more were answered; all of them."""
        wait_until(lambda: len(self.since(since_s)) >= count, lambda: f"{count} attempts: {self.attempts[-5:]}")
        return self.since(since_s)
