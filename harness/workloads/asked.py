"""One request to one broker, from outside the load, as an operation of the history."""

from __future__ import annotations

import time
from collections.abc import Callable

from harness.clients.connection import ClientError, Connection
from harness.operations import outcomes
from harness.operations.history import History
from harness.operations.op import Completion, Invocation


def asked(
    history: History,
    invocation: Invocation,
    connection: Connection,
    timeout_ms: int,
    carry_out: Callable[[], Completion],
) -> Completion:
    """Connect, which opens what is closed, and carry the request out; where it did not connect, nothing was sent."""
    index = history.invoke(invocation)
    try:
        connection.connect(time.monotonic_ns() + timeout_ms * 1_000_000)
    except ClientError as error:
        completion = Completion(outcomes.read_outcome(error.error), error.at_ns, error.error)
    else:
        completion = carry_out()
    history.complete(index, invocation, completion)
    return completion
