"""A broker's side of its controlled shutdown: requests to the controller until no leadership remains, or tries run out.

A request that finds no controller, or one that has been replaced, is not counted: the broker repeats it soon, and at
once when it learns of another controller. A response that names leaderships that could not be moved counts against
`controlled.shutdown.max.retries`; any UpdateMetadata meanwhile (an ISR that grew, say) makes the broker repeat the
request before the pause is over. A broker that is alone has nobody to hand over to, and a broker whose session may be
over leads no more: neither waits. The whole is bounded by tries × pause.
Loop thread. Source: KafkaServer.controlledShutdown; C5 of docs/guarantees.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.config.settings import Settings
from broker.model.ids import BrokerId
from broker.runtime.metadata.cache import Address, MetadataCache
from broker.runtime.ports import Loop, Peer, Timer
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode, error_name
from broker.wire.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from broker.wire.primitives import MalformedFrame

_log = logging.getLogger("broker.controller")

_VERSION = 3
_SOON_MS = 50.0
# Sender and receiver have different knowledge of controller or registration, which the next UpdateMetadata ends.
_NOT_A_REFUSAL = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH, ErrorCode.REQUEST_TIMED_OUT})


class ControlledShutdown:
    """`run` once."""

    def __init__(
        self,
        settings: Settings,
        broker_id: BrokerId,
        broker_epoch: Callable[[], int],
        cache: MetadataCache,
        loop: Loop,
        connect: Callable[[Address], Peer],
        attempt_ms: float,
        session_in_doubt: Callable[[], bool],
    ) -> None:
        """attempt_ms: after so long without a response the request is sent again; a second one is harmless."""
        self._settings = settings
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._cache = cache
        self._loop = loop
        self._connect = connect
        self._attempt_ms = attempt_ms
        self._session_in_doubt = session_in_doubt
        self._then: Callable[[], None] | None = None
        self._peer: Peer | None = None
        self._attempts = 0
        self._retry: Timer | None = None
        self._bound: Timer | None = None
        self._refusals_left = max(1, settings.controlled_shutdown_max_retries)
        self._counts_from_ms = 0.0
        self._reported = ""

    def run(self, then: Callable[[], None]) -> None:
        """then is called once, whether or not everything could be moved."""
        settings = self._settings
        if not settings.controlled_shutdown_enable or self._broker_epoch() < 0 or self._cache.controller_epoch < 0:
            # Without a registration, or before the first UpdateMetadata, this broker has no role to hand over.
            then()
            return
        self._then = then
        self._cache.add_listener(self._on_metadata)
        pause_ms = max(float(settings.controlled_shutdown_retry_backoff_ms), self._attempt_ms)
        self._bound = self._loop.call_later(
            self._refusals_left * pause_ms, lambda: self._end(f"the time is over: {self._reported or 'no response'}")
        )
        self._attempt()

    def _on_metadata(self) -> None:
        if self._then is not None and self._retry is not None:
            self._attempt()

    def _attempt(self) -> None:
        self._cancel_retry()
        self._close_peer()
        address = self._cache.address(self._cache.controller_id)
        if address is None:
            self._again("no controller is known", _SOON_MS)
            return
        self._attempts += 1
        attempt = self._attempts
        self._peer = self._connect(address)
        self._peer.send(
            ApiKey.CONTROLLED_SHUTDOWN,
            _VERSION,
            ControlledShutdownRequest(self._broker_id, self._broker_epoch()).encode(_VERSION),
            lambda view: self._on_response(attempt, view),
            lambda reason: self._on_failure(attempt, reason),
            self._attempt_ms,
        )

    def _on_failure(self, attempt: int, reason: str) -> None:
        if attempt == self._attempts and self._then is not None:
            self._again(reason, _SOON_MS)

    def _on_response(self, attempt: int, view: memoryview) -> None:
        if attempt != self._attempts or self._then is None:
            return
        try:
            response = ControlledShutdownResponse.decode(_VERSION, view)
        except MalformedFrame as error:
            self._again(f"malformed response: {error}", _SOON_MS)
            return
        left = len(response.remaining_partitions)
        if response.error_code in _NOT_A_REFUSAL:
            self._again(error_name(response.error_code), _SOON_MS)
        elif response.error_code == ErrorCode.NONE and left == 0:
            _log.info("controlled shutdown: all leaderships were moved")
            self._end("")
        else:
            self._refused(f"{error_name(response.error_code)}, {left} partitions remain")

    def _refused(self, reason: str) -> None:
        now = self._loop.now_ms()
        if now >= self._counts_from_ms:
            self._refusals_left -= 1
            self._counts_from_ms = now + self._settings.controlled_shutdown_retry_backoff_ms
        if self._refusals_left <= 0:
            self._end(reason)
        else:
            self._again(reason, self._counts_from_ms - now)

    def _again(self, reason: str, pause_ms: float) -> None:
        if self._cache.brokers.keys() <= {self._broker_id}:
            self._end(f"{reason}, and no other broker is alive")
            return
        if self._session_in_doubt():
            self._end(f"{reason}, and the ZooKeeper session may be over")
            return
        if reason != self._reported:
            self._reported = reason
            _log.info("controlled shutdown: %s; sending another request", reason)
        self._cancel_retry()
        self._retry = self._loop.call_later(pause_ms, self._attempt)

    def _end(self, gave_up: str) -> None:
        then, self._then = self._then, None
        if then is None:
            return
        if gave_up:
            _log.warning("controlled shutdown gave up: %s", gave_up)
        self._cancel_retry()
        self._close_peer()
        if self._bound is not None:
            self._bound.cancel()
        then()

    def _cancel_retry(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    def _close_peer(self) -> None:
        """The failure of its request, if one is out, says nothing any more."""
        self._attempts += 1
        if self._peer is not None:
            self._peer.close()
            self._peer = None
