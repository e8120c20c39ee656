"""A broker that answers its peer when told to, and what the peer's callbacks said."""

from __future__ import annotations

from broker.net.connection import Connection
from broker.net.listener import Listener
from broker.net.loop import EpollLoop
from broker.net.peer import BrokerPeer
from broker.net.slot import Slot
from broker.wire.api import ApiKey
from broker.wire.headers import decode_request_header, encode_response_header


class Outcomes:
    """What the callbacks said, by request."""

    def __init__(self) -> None:
        self.answers: dict[str, bytes] = {}
        self.failures: dict[str, str] = {}

    def send(self, peer: BrokerPeer, name: str, timeout_ms: float = 5000) -> int:
        def answered(view: memoryview) -> None:
            assert name not in self.answers
            self.answers[name] = bytes(view)

        def failed(reason: str) -> None:
            assert name not in self.failures
            self.failures[name] = reason

        return peer.send(ApiKey.FETCH, 12, name.encode(), answered, failed, timeout_ms)

    def __len__(self) -> int:
        assert not set(self.answers) & set(self.failures), "exactly one callback per request"
        return len(self.answers) + len(self.failures)


class Broker:
    """Answers each request with its body, in upper case, when told to."""

    def __init__(self, loop: EpollLoop) -> None:
        self.requests: list[tuple[int, str | None, bytes]] = []
        self.slots: list[Slot] = []
        self.at_once = True
        self.listener = Listener(loop, "127.0.0.1", 0, self.on_frame)

    def on_frame(self, _: Connection, frame: memoryview, slot: Slot) -> None:
        header = decode_request_header(frame)
        self.requests.append((header.correlation_id, header.client_id, bytes(frame[header.body_start :])))
        self.slots.append(slot)
        if self.at_once:
            self.answer(len(self.slots) - 1)

    def answer(self, index: int) -> None:
        correlation_id, _, body = self.requests[index]
        self.slots[index].fulfil([encode_response_header(ApiKey.FETCH, 12, correlation_id), body.upper()])
