"""The requests that brokers send to the controller. Loop thread.

Source: KafkaApis.handleAlterPartitionRequest, handleControlledShutdownRequest.
"""

from __future__ import annotations

from broker.runtime.controller.controller import Controller
from broker.runtime.requests.decoding import decode_or_refuse
from broker.runtime.requests.request import Request, respond
from broker.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from broker.wire.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse


class ControllerHandlers:
    """Hands requests to the controller's thread."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    def handle_alter_partition(self, request: Request) -> None:
        """Queue it for the controller's thread; the response follows in a later turn. NOT_CONTROLLER elsewhere."""
        body = decode_or_refuse(request, AlterPartitionRequest)
        if body is None:
            return

        def reply(response: AlterPartitionResponse) -> None:
            respond(request, response.encode(request.api_version))

        self._controller.alter_partition(body, request.api_version, reply, lambda: request.open)

    def handle_controlled_shutdown(self, request: Request) -> None:
        """Queue it for the controller's thread; the response names the leaderships that remain."""
        body = decode_or_refuse(request, ControlledShutdownRequest)
        if body is None:
            return

        def reply(response: ControlledShutdownResponse) -> None:
            respond(request, response.encode(request.api_version))

        self._controller.controlled_shutdown(body, reply, lambda: request.open)
