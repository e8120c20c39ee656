"""A process of plain sends and polls over both topics: an append-poll process for each.

Decides which topic an op is about. Must not know transactions.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.operations.generator import Op
from harness.operations.op import Completion, Invocation
from harness.workloads.append_poll.client import AppendPollClient
from harness.workloads.transactions.generators import OUT


class PlainClient:
    """Implements `harness.operations.interpreter.Client`. Used by one thread."""

    def __init__(self, topic: AppendPollClient, out: Callable[[], AppendPollClient]) -> None:
        """out: makes the process's client for the output topic, once it is needed."""
        self._topic = topic
        self._open_out = out
        self._out: AppendPollClient | None = None
        self._client = topic

    def resolve(self, op: Op) -> Invocation:
        """Find the leader of the op's partition, in its topic."""
        self._client = self._topic
        if op.detail == OUT:
            self._out = self._out or self._open_out()
            self._client = self._out
        return self._client.resolve(op)

    def invoke(self, invocation: Invocation) -> Completion:
        """The one request."""
        return self._client.invoke(invocation)

    def close(self) -> None:
        """Close both."""
        self._topic.close()
        if self._out is not None:
            self._out.close()
