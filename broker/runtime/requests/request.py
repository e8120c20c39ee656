"""One request on its way through a handler, and how its response leaves.

Dispatch builds a `Request` per frame and hands it to a handler; the handler ends it exactly once, now or in a later
turn, through `respond` (or `respond_nothing`, or `refuse`). Knows nothing of sockets: the slot keeps order.
Source: kafka.network.RequestChannel.Request.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from broker.runtime.ports import ResponseSlot
from broker.runtime.requests.context import NO_CONNECTION, Principal, RequestContext
from broker.wire.chunks import Chunk

_CORRELATION = struct.Struct(">i")
_ONE_PIECE = (bytes, bytearray)
_FLEXIBLE_HEADER = struct.Struct(">iB")
NO_BODY: Final = memoryview(b"")


class Request:
    """What a handler gets.

    body: the bytes after the request header, writable. The dispatcher takes it back when the handler returns: a view
    keeps all that was received with it in memory, for as long as the request waits. A handler that needs it later
    goes on with `with_own_body`. What it cut from the body is valid until the end of this turn.
    context: what it shares with the other requests of its connection: listener and principal.
    response_flexible: the response header carries a tag buffer (header v1); False for ApiVersions at every version.
    """

    __slots__ = (
        "api_key",
        "api_version",
        "body",
        "client_id",
        "context",
        "correlation_id",
        "response_flexible",
        "slot",
    )

    def __init__(
        self,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str,
        body: memoryview,
        slot: ResponseSlot,
        response_flexible: bool,
        context: RequestContext = NO_CONNECTION,
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.body = body
        self.slot = slot
        self.response_flexible = response_flexible
        self.context = context

    def with_own_body(self) -> Request:
        """The same request with a copy of the body, writable too, for a handler that hands it on in a later turn."""
        body = memoryview(bytearray(self.body))
        return Request(
            self.api_key,
            self.api_version,
            self.correlation_id,
            self.client_id,
            body,
            self.slot,
            self.response_flexible,
            self.context,
        )

    @property
    def listener(self) -> str:
        """Name of the listener that accepted the connection."""
        return self.context.listener

    @property
    def principal(self) -> Principal:
        """Who sent it."""
        return self.context.principal

    @property
    def open(self) -> bool:
        """False once its connection is gone: work for its response may be dropped."""
        return self.slot.open


def response_header(request: Request) -> bytes:
    """The response header alone, for a handler that builds its own list of chunks."""
    if request.response_flexible:
        return _FLEXIBLE_HEADER.pack(request.correlation_id, 0)
    return _CORRELATION.pack(request.correlation_id)


def respond(request: Request, body: bytes | bytearray | Sequence[Chunk]) -> None:
    """Send the response: the header and a body that is one byte string or a list of chunks."""
    if isinstance(body, _ONE_PIECE):
        request.slot.fulfil((response_header(request) + body,))
    else:
        request.slot.fulfil((response_header(request), *body))


def respond_nothing(request: Request) -> None:
    """End a request that has no response (Produce with acks=0)."""
    request.slot.fulfil_nothing()


def respond_and_hang_up(request: Request, body: bytes) -> None:
    """Respond, then close the connection, so that the client turns to another broker: this one cannot name the right
    one.
    """
    request.slot.close_connection("", (response_header(request) + body,))


def give_up(slot: ResponseSlot | None) -> None:
    """An error of the program has kept a response from being made: its sender would wait for it until its own time is
    over, so the connection closes. Nothing where there is a response, or no slot. Call where the error is logged.
    """
    if slot is not None and not slot.done:
        slot.close_connection("its response could not be made")


def refuse(request: Request, reason: str) -> None:
    """Close the connection after the responses to earlier requests; for malformed bytes and failed acks=0."""
    request.slot.close_connection(reason)
