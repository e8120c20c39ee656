"""What lines of the Java client's process mean, and which of its errors prove something."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.clients.java.lines import (
    Failure,
    NoLine,
    asks_for_abort,
    command_line,
    delivery_outcome,
    error_name,
    failure_of,
    helps_again,
    parse_line,
)

pytestmark = pytest.mark.guarantee("H4")


def test_command_is_one_line_of_ascii_whatever_a_record_holds() -> None:
    line = command_line("producer.send", 7, {"value": bytes(range(256)).decode("latin-1")})
    assert line.isascii()
    assert line.count(b"\n") == 1
    read = json.loads(line)
    assert (read["do"], read["id"], read["value"].encode("latin-1")) == ("producer.send", 7, bytes(range(256)))


@pytest.mark.parametrize("line", [{"answer": 7, "member": "m"}, {"event": "revoked", "partitions": [1]}])
def test_line_is_an_answer_or_an_event(line: dict[str, Any]) -> None:
    assert parse_line(json.dumps(line).encode() + b"\n") == line


@pytest.mark.parametrize("line", [b"", b"SLF4J: No providers\n", b"[]\n", b"{}\n", b'{"answer": 1, "event": "x"}\n'])
def test_anything_else_is_no_line(line: bytes) -> None:
    with pytest.raises(NoLine):
        parse_line(line)


def test_failure_is_read_as_the_client_describes_it() -> None:
    said = {"class": "KafkaException", "error": None, "causes": ["TimeoutException"], "message": "m", "number": 3}
    assert failure_of(said) == Failure("KafkaException", None, ("TimeoutException",), "m")


@pytest.mark.parametrize(
    ("failure", "name"),
    [
        # The client's own, and the broker's REQUEST_TIMED_OUT: it says the same of both.
        (Failure("TimeoutException", "REQUEST_TIMED_OUT"), "timeout"),
        (Failure("NetworkException", "NETWORK_EXCEPTION"), "connection-reset"),
        (Failure("NotEnoughReplicasException", "NOT_ENOUGH_REPLICAS"), "NOT_ENOUGH_REPLICAS"),
        (Failure("CommitFailedException"), "client-error"),
    ],
)
def test_error_has_the_name_of_the_history(failure: Failure, name: str) -> None:
    assert error_name(failure) == name


TIMEOUT = Failure("TimeoutException", "REQUEST_TIMED_OUT")


@pytest.mark.parametrize(
    ("failure", "inside", "retries", "expected"),
    [
        # Its batch expired, and may have been sent before.
        (TIMEOUT, False, False, ("info", "timeout")),
        (TIMEOUT, False, True, ("info", "timeout")),
        # It waited for metadata, or for room, within `send`: it was never handed over.
        (TIMEOUT, True, True, ("fail", "timeout")),
        (Failure("RecordTooLargeException", "MESSAGE_TOO_LARGE"), True, True, ("fail", "MESSAGE_TOO_LARGE")),
        # Thrown by `send`, once the record is in the accumulator.
        (Failure("KafkaException", None, ("OutOfOrderSequenceException",)), True, True, ("info", "client-error")),
        (Failure("NotEnoughReplicasException", "NOT_ENOUGH_REPLICAS"), False, False, ("fail", "NOT_ENOUGH_REPLICAS")),
        # An earlier request of the same record may have been taken.
        (Failure("NotEnoughReplicasException", "NOT_ENOUGH_REPLICAS"), False, True, ("info", "NOT_ENOUGH_REPLICAS")),
        (
            Failure("NotEnoughReplicasAfterAppendException", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"),
            False,
            False,
            ("info", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"),
        ),
        (Failure("NetworkException", "NETWORK_EXCEPTION"), False, False, ("info", "connection-reset")),
        # A producer that is closed by force.
        (Failure("KafkaException"), False, False, ("info", "client-error")),
    ],
)
def test_record_fails_only_where_it_is_certain(
    failure: Failure, inside: bool, retries: bool, expected: tuple[str, str]
) -> None:
    assert delivery_outcome(failure, inside=inside, retries=retries) == expected


@pytest.mark.parametrize(
    ("failure", "again", "aborts"),
    [
        (TIMEOUT, True, False),
        (Failure("InterruptException"), True, False),
        (Failure("CommitFailedException"), False, True),
        (Failure("InvalidProducerEpochException", "INVALID_PRODUCER_EPOCH"), False, True),
        (Failure("TransactionAbortableException", "TRANSACTION_ABORTABLE"), False, True),
        # In an error state, because a batch had expired.
        (Failure("KafkaException", None, ("TimeoutException",)), False, True),
        (Failure("KafkaException", None, ("KafkaException", "CommitFailedException")), False, True),
        (Failure("ProducerFencedException", "PRODUCER_FENCED"), False, False),
        (Failure("KafkaException", None, ("ProducerFencedException",)), False, False),
        # The coordinator may have committed by an earlier request.
        (Failure("InvalidTxnStateException", "INVALID_TXN_STATE"), False, False),
        (Failure("InvalidPidMappingException", "INVALID_PRODUCER_ID_MAPPING"), False, False),
        (Failure("KafkaException"), False, False),
        (Failure("KafkaException", None, ("KafkaException",)), False, False),
        (Failure("IllegalStateException"), False, False),
    ],
)
def test_call_of_a_transaction_says_what_may_follow(failure: Failure, again: bool, aborts: bool) -> None:
    assert (helps_again(failure), asks_for_abort(failure)) == (again, aborts)
