"""What goes between the lab and a process of Kafka's Java client, and what its errors mean.

A command is {"do", "id", …}, an answer {"answer": id, …}, anything in between an event {"event", …}; one JSON object a
line, ASCII. Bytes of records are Latin-1. A failed call has "failed" in its answer.

Decides which of the client's errors prove something. Must not know processes or the history. Source, also of the lists:
KafkaProducer.doSend, TransactionManager (maybeFailWithError, EndTxnHandler, AddOffsetsToTxnHandler) of Kafka 3.9.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from harness.operations import outcomes
from harness.operations.op import Outcome


class Failure(NamedTuple):
    """What the client threw, or gave to a callback. kind: the exception's class; error: Kafka's name, None where it has
    none; causes: classes, outermost first.
    """

    kind: str
    error: str | None = None
    causes: tuple[str, ...] = ()
    message: str = ""


class NoLine(Exception):
    """What came is no line of this protocol."""


_NAMES = {
    "TimeoutException": outcomes.TIMEOUT,
    "InterruptException": outcomes.TIMEOUT,
    "NetworkException": outcomes.RESET,
    "DisconnectException": outcomes.RESET,
}
_NOT_HANDED_OVER = frozenset({"TimeoutException", "BufferExhaustedException", "RecordTooLargeException"})
"""From within `send`, before the record is in the accumulator: its metadata, its room, or its size."""
_AGAIN = frozenset({"TimeoutException", "InterruptException"})
_FOR_GOOD = frozenset(
    {
        "ProducerFencedException",
        "OutOfOrderSequenceException",
        "UnsupportedVersionException",
        "AuthorizationException",
        "ClusterAuthorizationException",
        "TransactionalIdAuthorizationException",
        # A coordinator answers with these where the transaction may have ended by an earlier request.
        "InvalidTxnStateException",
        "InvalidPidMappingException",
        "UnknownProducerIdException",
        # Wrong use, above all after an earlier error.
        "IllegalStateException",
    }
)


def command_line(do: str, number: int, fields: Mapping[str, object]) -> bytes:
    """A command, with its end of line."""
    return json.dumps({"do": do, "id": number, **fields}).encode("ascii") + b"\n"


def parse_line(line: bytes) -> Mapping[str, Any]:
    """An answer or an event. Raises NoLine."""
    try:
        found = json.loads(line)
    except ValueError:
        raise NoLine(repr(line[:200])) from None
    if not isinstance(found, dict) or ("answer" in found) == ("event" in found):
        raise NoLine(repr(line[:200]))
    return found


def failure_of(fields: Mapping[str, Any]) -> Failure:
    """Of the fields that describe one."""
    return Failure(
        str(fields["class"]), fields.get("error"), tuple(fields.get("causes", ())), fields.get("message", "")
    )


def error_name(failure: Failure) -> str:
    """As the history has it."""
    return _NAMES.get(failure.kind) or failure.error or outcomes.CLIENT_ERROR


def delivery_outcome(failure: Failure, *, inside: bool, retries: bool) -> tuple[Outcome, str]:
    """Outcome and error of a record that was not delivered.

    inside: the call of `send` itself failed. retries: the producer sends again by itself; what the last response proves
    says nothing of the requests before it.
    """
    error = error_name(failure)
    if inside and failure.kind in _NOT_HANDED_OVER:
        return "fail", error
    return ("info" if retries else outcomes.send_outcome(error)), error


def helps_again(failure: Failure) -> bool:
    """Whether the call of a transaction may be made once more, and goes on where it was."""
    return failure.kind in _AGAIN


def asks_for_abort(failure: Failure) -> bool:
    """Whether the transaction was certainly not committed, and can be aborted."""
    if failure.kind in _AGAIN or failure.kind in _FOR_GOOD:
        return False
    if failure.kind != "KafkaException":
        return True
    # "In an error state": by what brought it there. One that it cannot name is not known.
    causes = [kind for kind in failure.causes if kind != "KafkaException"]
    return bool(causes) and causes[0] not in _FOR_GOOD
