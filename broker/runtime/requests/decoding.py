"""The body of a request as its message; malformed bytes end the connection.

Source: kafka.network.Processor, which closes the connection of a request that cannot be parsed.
"""

from __future__ import annotations

from typing import TypeVar

from broker.runtime.requests.request import Request, refuse
from broker.wire.primitives import MalformedFrame
from broker.wire.schema import Message

_Body = TypeVar("_Body", bound=Message)


def decode_or_refuse(request: Request, message: type[_Body]) -> _Body | None:
    """None for malformed bytes: the request was refused, with the API's name (as in Kafka's definition) as reason."""
    try:
        return message.decode(request.api_version, request.body)
    except MalformedFrame as error:
        refuse(request, f"{message.__name__.removesuffix('Request')}: {error}")
        return None
