"""What a client makes of bytes that came back: a message, or a ClientError `malformed` and a closed connection.

Must not know what messages mean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from broker.wire.primitives import MalformedFrame
from harness.clients.connection import ClientError, Connection, Response
from harness.operations import outcomes

T = TypeVar("T")


def decoded(connection: Connection, received: Response, decode: Callable[[], T]) -> T:
    """What decode returns. Raises ClientError where it finds a malformed frame."""
    try:
        return decode()
    except MalformedFrame as error:
        raise malformed(connection, str(error), received) from None


def malformed(connection: Connection, what: str, received: Response | None = None) -> ClientError:
    """The error to raise; the connection is closed."""
    connection.close()
    size = f" ({len(received.body)} bytes)" if received is not None else ""
    return ClientError(outcomes.MALFORMED, f"{connection.address.host}:{connection.address.port}: {what}{size}")
