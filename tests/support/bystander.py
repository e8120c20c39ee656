"""An ordinary client beside whatever else happens: produces, reads back, commits and reads offsets, and keeps the time.

It keeps its connection for as long as the broker does; that it loses it is counted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Final, cast

from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import fetch
from broker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tests.support.raw_client import RawClient, batch_of, fetch_frame, framed
from tests.support.wait import eventually

_COMMIT_VERSION: Final = 7
_FETCH_VERSION: Final = 12
_PAUSE_S: Final = 0.01


class Bystander:
    """On a thread of its own between `start` and `stop`.

    topic: one with a partition 0 that the broker leads; group: one that it coordinates, None for no commits. A round is
    a produce with acks=all, a fetch of that record, and a commit.
    """

    def __init__(self, port: int, topic: str, group: str | None) -> None:
        self._port = port
        self._topic = topic
        self._group = group
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._began: float | None = None
        self._done_s: list[float] = []
        self.failures: list[str] = []

    def start(self) -> None:
        self._thread.start()

    @property
    def times_s(self) -> list[float]:
        """Of the rounds so far, the one under way included."""
        began = self._began
        return [*self._done_s, *([] if began is None else [time.monotonic() - began])]

    def slowest_s(self, share: float = 1.0) -> float:
        """The longest round; or which share of them was faster."""
        times = sorted(self.times_s)
        return times[min(len(times) - 1, int(len(times) * share))]

    def wait_rounds(self, rounds: int) -> None:
        """Until so many are done; fails with what went wrong, or after a minute."""

        def done() -> bool:
            assert not self.failures, self.failures
            return len(self._done_s) >= rounds

        eventually(done, f"{rounds} rounds of an ordinary client", timeout_s=60)

    def _run(self) -> None:
        try:
            client = RawClient(self._port)
            try:
                while not self._over.is_set():
                    self._began = time.monotonic()
                    _round(client, self._topic, self._group)
                    self._done_s.append(time.monotonic() - self._began)
                    self._began = None
                    self._over.wait(_PAUSE_S)
            finally:
                client.close()
        except (OSError, EOFError, AssertionError) as error:
            self.failures.append(f"{type(error).__name__}: {error}")
            self._began = None

    def stop(self) -> None:
        """Ends, and fails with what went wrong."""
        self._over.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), "no answer for a minute"
        assert not self.failures, self.failures


def wait_served(port: int, topic: str, group: str) -> None:
    """Until the broker serves a round of such a client."""
    eventually(lambda: is_served(port, topic, group), f"a round of a client on port {port}", timeout_s=60)


def is_served(port: int, topic: str, group: str) -> bool:
    """Whether the broker serves one."""
    try:
        client = RawClient(port)
        try:
            _round(client, topic, group)
        finally:
            client.close()
    except (OSError, EOFError, AssertionError):
        return False
    return True


def _round(client: RawClient, topic: str, group: str | None) -> None:
    batch = batch_of(100)
    produced = client.produce(topic, batch, -1)
    assert produced.error == ErrorCode.NONE, f"produce: {ErrorCode(produced.error).name}"
    client.send(fetch_frame(topic, produced.base_offset, 1 << 20))
    (found,) = fetch.decode_response(_FETCH_VERSION, memoryview(client.receive())[5:]).results
    assert found.error == ErrorCode.NONE, f"fetch: {ErrorCode(found.error).name}"
    stored = b"".join(cast(Sequence[bytes], found.records))
    # Base offset and leader epoch are the broker's own.
    assert stored[16:] == batch[16:], "the record that was produced"
    if group is None:
        return
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=produced.base_offset)
    commit = OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(topic, partitions=[part])])
    client.send(framed(ApiKey.OFFSET_COMMIT, _COMMIT_VERSION, commit.encode(_COMMIT_VERSION)))
    answer = OffsetCommitResponse.decode(_COMMIT_VERSION, client.receive()[4:])
    error = answer.topics[0].partitions[0].error_code
    assert error == ErrorCode.NONE, f"commit: {ErrorCode(error).name}"
