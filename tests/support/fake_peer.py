"""A broker at the other end of a connection, with responses and failures that come from the test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from broker.runtime.ports import Peer
from broker.wire.schema import Message

_Request = TypeVar("_Request", bound=Message)


@dataclass(frozen=True)
class SentRequest:
    """A request that a peer was sent, with the callbacks for its response and its failure.

    body: after the request header. on_response takes the bytes after the response header.
    """

    api_key: int
    api_version: int
    body: bytes
    on_response: Callable[[memoryview], None]
    on_failure: Callable[[str], None]

    def decode(self, message: type[_Request]) -> _Request:
        return message.decode(self.api_version, self.body)

    def respond(self, response: Message) -> None:
        self.on_response(memoryview(response.encode(self.api_version)))


class FakePeer(Peer):
    """Hands each request to `receive`, which a subclass defines; the correlation ids are 1, 2, ..."""

    def __init__(self) -> None:
        self.closed = False
        self.correlation = 0

    def send(
        self,
        api_key: int,
        api_version: int,
        body: bytes,
        on_response: Callable[[memoryview], None],
        on_failure: Callable[[str], None],
        timeout_ms: float,
    ) -> int:
        self.correlation += 1
        self.receive(SentRequest(api_key, api_version, body, on_response, on_failure))
        return self.correlation

    def receive(self, request: SentRequest) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self.closed = True


class HeldPeer(FakePeer):
    """Keeps every request; the test responds to it, or fails it, when it likes."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[SentRequest] = []

    def receive(self, request: SentRequest) -> None:
        self.sent.append(request)
