"""A logical process of compaction: append-poll's, whose records have keys.

Decides the fields and bytes of a send. Must not know which keys come when.
"""

from __future__ import annotations

from harness.clients.connection import Connection
from harness.clients.keyed import KeyedRecord, produce_keyed
from harness.operations import outcomes
from harness.operations.generator import Op
from harness.operations.op import Completion, Invocation
from harness.workloads.append_poll.client import AppendPollClient

OF_SENTINELS = 10**9
"""Key of every sentinel."""


class KeyedClient(AppendPollClient):
    """Implements `harness.operations.interpreter.Client`. Used by one thread."""

    def _fields(self, op: Op, epoch: int) -> dict[str, object]:
        fields = super()._fields(op, epoch)
        if op.f == "send":
            detail = op.detail
            keyed = detail if isinstance(detail, tuple) else ((OF_SENTINELS, False),) * len(op.values)
            fields |= {"keys": [key for key, _ in keyed], "tombstones": [gone for _, gone in keyed]}
        return fields

    def _send(self, connection: Connection, invocation: Invocation) -> Completion:
        topic, partition = invocation.home
        values, keys, gone = (invocation.fields[name] for name in ("values", "keys", "tombstones"))
        assert isinstance(values, list)
        assert isinstance(keys, list)
        assert isinstance(gone, list)
        produced = produce_keyed(
            connection,
            topic,
            partition,
            [KeyedRecord(*record) for record in zip(keys, values, gone, strict=True)],
            record_bytes=self._settings.record_bytes,
            timeout_ms=self._settings.request_timeout_ms,
            deadline_ns=self._deadline_ns(),
        )
        if produced.error is None and invocation.fields["sentinel"]:
            self._shared.sentinels[partition] = produced.base_offset
        fields = {"base_offset": produced.base_offset} if produced.error is None else {}
        return Completion(outcomes.send_outcome(produced.error), produced.at_ns, produced.error, fields)
