"""The requests that brokers send to the controller, and the one that a stopping broker sends. Loop thread.

Source: KafkaApis.handleAlterPartitionRequest, handleControlledShutdownRequest; KafkaServer.controlledShutdown.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.config import Settings
from broker.runtime.controller import Controller
from broker.runtime.metadata_cache import Address, MetadataCache
from broker.runtime.ports import BrokerId, Loop, Peer
from broker.runtime.request import Request, refuse, respond
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode, error_name
from broker.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from broker.wire.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from broker.wire.primitives import MalformedFrame

_log = logging.getLogger("broker.controller")

_SHUTDOWN_VERSION = 3


class ControllerHandlers:
    """Hands requests to the controller's thread."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    def handle_alter_partition(self, request: Request) -> None:
        try:
            body = AlterPartitionRequest.decode(request.api_version, request.body)
        except MalformedFrame as error:
            refuse(request, f"AlterPartition: {error}")
            return

        def answer(response: AlterPartitionResponse) -> None:
            respond(request, response.encode(request.api_version))

        self._controller.alter_partition(body, request.api_version, answer)

    def handle_controlled_shutdown(self, request: Request) -> None:
        try:
            body = ControlledShutdownRequest.decode(request.api_version, request.body)
        except MalformedFrame as error:
            refuse(request, f"ControlledShutdown: {error}")
            return

        def answer(response: ControlledShutdownResponse) -> None:
            respond(request, response.encode(request.api_version))

        self._controller.controlled_shutdown(body, answer)


class ControlledShutdown:
    """A stopping broker's own side: ask until nothing remains, or the tries are over."""

    def __init__(
        self,
        settings: Settings,
        broker_id: BrokerId,
        broker_epoch: Callable[[], int],
        cache: MetadataCache,
        loop: Loop,
        connect: Callable[[Address], Peer],
    ) -> None:
        self._settings = settings
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._cache = cache
        self._loop = loop
        self._connect = connect

    def run(self, then: Callable[[], None]) -> None:
        """then is called once, whether or not everything could be moved."""
        settings = self._settings
        if not settings.controlled_shutdown_enable or self._broker_epoch() < 0:
            then()
            return
        self._attempt(max(1, settings.controlled_shutdown_max_retries), then)

    def _attempt(self, tries: int, then: Callable[[], None]) -> None:
        settings = self._settings
        address = self._cache.address(self._cache.controller_id)
        if address is None:
            self._again(tries, "no controller is known", then)
            return
        peer = self._connect(address)

        def on_response(view: memoryview) -> None:
            response = ControlledShutdownResponse.decode(_SHUTDOWN_VERSION, view)
            peer.close()
            left = len(response.remaining_partitions)
            if response.error_code == ErrorCode.NONE and left == 0:
                _log.info("controlled shutdown: all leaderships were moved")
                then()
            else:
                self._again(tries, f"{error_name(response.error_code)}, {left} partitions remain", then)

        def on_failure(reason: str) -> None:
            peer.close()
            self._again(tries, reason, then)

        body = ControlledShutdownRequest(self._broker_id, self._broker_epoch()).encode(_SHUTDOWN_VERSION)
        peer.send(
            ApiKey.CONTROLLED_SHUTDOWN,
            _SHUTDOWN_VERSION,
            body,
            on_response,
            on_failure,
            float(settings.controller_socket_timeout_ms),
        )

    def _again(self, tries: int, reason: str, then: Callable[[], None]) -> None:
        if tries <= 1:
            _log.warning("controlled shutdown gave up: %s", reason)
            then()
            return
        pause_ms = float(self._settings.controlled_shutdown_retry_backoff_ms)
        _log.info("controlled shutdown: %s; again in %.0f ms", reason, pause_ms)
        self._loop.call_later(pause_ms, lambda: self._attempt(tries - 1, then))
