"""The requests that brokers send to the controller. Loop thread.

Source: KafkaApis.handleAlterPartitionRequest, handleControlledShutdownRequest.
"""

from __future__ import annotations

from broker.runtime.controller.controller import Controller
from broker.runtime.requests.request import Request, refuse, respond
from broker.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from broker.wire.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from broker.wire.primitives import MalformedFrame


class ControllerHandlers:
    """Hands requests to the controller's thread."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    def handle_alter_partition(self, request: Request) -> None:
        """Queue it for the controller's thread; the response follows in a later turn. NOT_CONTROLLER elsewhere."""
        try:
            body = AlterPartitionRequest.decode(request.api_version, request.body)
        except MalformedFrame as error:
            refuse(request, f"AlterPartition: {error}")
            return

        def reply(response: AlterPartitionResponse) -> None:
            respond(request, response.encode(request.api_version))

        self._controller.alter_partition(body, request.api_version, reply, lambda: request.open)

    def handle_controlled_shutdown(self, request: Request) -> None:
        """Queue it for the controller's thread; the response names the leaderships that remain."""
        try:
            body = ControlledShutdownRequest.decode(request.api_version, request.body)
        except MalformedFrame as error:
            refuse(request, f"ControlledShutdown: {error}")
            return

        def reply(response: ControlledShutdownResponse) -> None:
            respond(request, response.encode(request.api_version))

        self._controller.controlled_shutdown(body, reply, lambda: request.open)
