"""Requests to a coordinator wait while it is about to be able to serve them.

After a coordinator's end its clients turn to the next one within milliseconds, while that is still being elected, or
reads its log. An error would cost them a pause of their own, 100 ms or a multiple, for what is over in a few
milliseconds. So a request waits here, unread, while this broker loads its key's partition, for half a second from when
that was first asked for; and while by this broker's metadata the partition is led by one whose connection has just
ended.
Afterwards it is handled as if it had come only then. A load that takes longer is answered as Kafka does, with
COORDINATOR_LOAD_IN_PROGRESS, and so is a key of another coordinator with NOT_COORDINATOR. Loop thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Final, Protocol

from broker.model.ids import BrokerId
from broker.runtime.ports import Loop
from broker.runtime.requests.chain import handle_late
from broker.runtime.requests.condition_waits import Waits
from broker.runtime.requests.request import Request
from broker.wire.api import ApiKey
from broker.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from broker.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from broker.wire.messages.end_txn import EndTxnRequest
from broker.wire.messages.heartbeat import HeartbeatRequest
from broker.wire.messages.init_producer_id import InitProducerIdRequest
from broker.wire.messages.join_group import JoinGroupRequest
from broker.wire.messages.leave_group import LeaveGroupRequest
from broker.wire.messages.offset_commit import OffsetCommitRequest
from broker.wire.messages.offset_fetch import OffsetFetchRequest
from broker.wire.messages.sync_group import SyncGroupRequest
from broker.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from broker.wire.primitives import MalformedFrame
from broker.wire.schema import Message

LOAD_MAX_MS: Final = 500.0
_MANY_GROUPS_FROM: Final = 8
"""Of OffsetFetch."""
_MANY_TRANSACTIONS_FROM: Final = 4
"""Of AddPartitionsToTxn."""

Handler = Callable[[Request], None]

_GROUP: Mapping[ApiKey, type[Message]] = {
    ApiKey.JOIN_GROUP: JoinGroupRequest,
    ApiKey.SYNC_GROUP: SyncGroupRequest,
    ApiKey.HEARTBEAT: HeartbeatRequest,
    ApiKey.LEAVE_GROUP: LeaveGroupRequest,
    ApiKey.OFFSET_COMMIT: OffsetCommitRequest,
    ApiKey.TXN_OFFSET_COMMIT: TxnOffsetCommitRequest,
}
_TRANSACTION: Mapping[ApiKey, type[Message]] = {
    ApiKey.INIT_PRODUCER_ID: InitProducerIdRequest,
    ApiKey.ADD_OFFSETS_TO_TXN: AddOffsetsToTxnRequest,
    ApiKey.END_TXN: EndTxnRequest,
}
HELD: Final = frozenset((*_GROUP, *_TRANSACTION, ApiKey.OFFSET_FETCH, ApiKey.ADD_PARTITIONS_TO_TXN))
"""What waits."""


class Doubts(Protocol):
    """Whoever watches the other brokers."""

    def known_doubts(self) -> Mapping[BrokerId, float]:
        """Brokers that may be gone, as far as is known without looking, and until when, by the loop's clock, that is in
        doubt.
        """
        ...

    def doubted(self) -> Mapping[BrokerId, float]:
        """The same after a look at each connection."""
        ...


class Loading(Protocol):
    """The partitions that this broker coordinates."""

    def loading_since(self) -> Mapping[int, float]:
        """Partitions that are being loaded, and since when, by the loop's clock; of one that somebody waits for, since
        when that is so.
        """
        ...

    def want(self, partition: int) -> None:
        """Somebody waits for this partition: those come first that are waited for."""
        ...


class HeldRequests:
    """Of one internal topic. `check` after every change of the metadata or of what is loaded."""

    def __init__(
        self,
        loading: Loading,
        partition_of: Callable[[str], int],
        leader_of: Callable[[int], BrokerId],
        doubts: Doubts | None,
        loop: Loop,
    ) -> None:
        """partition_of: of a group or transactional id. leader_of: a partition's, by the metadata. doubts: None where
        nobody watches the other brokers.
        """
        self._loading = loading
        self._partition_of = partition_of
        self._leader_of = leader_of
        self._doubts = doubts
        self._loop = loop
        self._waits = Waits(loop)
        self._waiting: Counter[str] = Counter()
        """How many requests about each key wait."""
        self.check = self._waits.check

    def before(self, handler: Handler) -> Handler:
        """The handler, with what has to wait before it."""

        def handle(request: Request) -> None:
            if not self._waiting and not self._loading.loading_since() and not self._known_doubts():
                handler(request)
                return
            keys = keys_of(request)
            wait_ms = self._wait_ms(keys)
            if wait_ms <= 0:
                if not self._waiting.keys().isdisjoint(keys):
                    # What has waited need not either any more, and came first.
                    self._waits.check()
                handler(request)
                return
            own = request.with_own_body()
            held = Counter(keys)
            self._waiting += held

            def go_on() -> None:
                self._waiting -= held
                # Whose connection is gone has another by now, and may have sent there what must not be overtaken.
                if own.open:
                    handle_late(handler, own)

            self._waits.until(lambda: self._wait_ms(keys) <= 0, wait_ms, go_on, go_on)

        return handle

    def wait_ms(self, key: str, *, look: bool = False) -> float:
        """How long until this key's coordinator may be able to serve; 0 or less where nothing is to be waited for.

        look: at the connections to other brokers first, whose end may not have been reported yet.
        """
        if look and self._doubts is not None:
            self._doubts.doubted()
        elif not self._loading.loading_since() and not self._known_doubts():
            return 0.0
        return self._wait_ms((key,))

    def _known_doubts(self) -> Mapping[BrokerId, float]:
        return {} if self._doubts is None else self._doubts.known_doubts()

    def _wait_ms(self, keys: Collection[str]) -> float:
        """How long a request about these keys may have to wait still; 0 or less for not at all. What it waits for is
        loaded first.
        """
        now_ms = self._loop.now_ms()
        since, doubts = self._loading.loading_since(), self._known_doubts()
        longest = 0.0
        for key in keys:
            partition = self._partition_of(key)
            if partition in since:
                self._loading.want(partition)
                longest = max(longest, since[partition] + LOAD_MAX_MS - now_ms)
            else:
                longest = max(longest, doubts.get(self._leader_of(partition), now_ms) - now_ms)
        return longest


def keys_of(request: Request) -> list[str]:
    """The group or transactional ids of a request of HELD; none where it cannot be read: its handler refuses it."""
    api, version = ApiKey(request.api_key), request.api_version
    try:
        if api is ApiKey.OFFSET_FETCH:
            fetch = OffsetFetchRequest.decode(version, request.body)
            return [group.group_id for group in fetch.groups] if version >= _MANY_GROUPS_FROM else [fetch.group_id]
        if api is ApiKey.ADD_PARTITIONS_TO_TXN:
            added = AddPartitionsToTxnRequest.decode(version, request.body)
            if version >= _MANY_TRANSACTIONS_FROM:
                return [transaction.transactional_id for transaction in added.transactions]
            return [added.v3_and_below_transactional_id]
        if api in _GROUP:
            return [_GROUP[api].decode(version, request.body).group_id]  # type: ignore[attr-defined]
        id_ = _TRANSACTION[api].decode(version, request.body).transactional_id  # type: ignore[attr-defined]
    except MalformedFrame:
        return []
    return [] if id_ is None else [id_]
