"""The controller's requests to this broker's replicas: LeaderAndIsr and StopReplica, from request to response."""

from __future__ import annotations

from broker.runtime.replicas.role_changes import RoleChanges
from broker.runtime.requests.decoding import decode_or_refuse
from broker.runtime.requests.request import Request, respond
from broker.wire.messages.leader_and_isr import LeaderAndIsrRequest
from broker.wire.messages.stop_replica import StopReplicaRequest


class ControllerRequests:
    """See the module."""

    def __init__(self, role_changes: RoleChanges) -> None:
        self._role_changes = role_changes

    def handle_leader_and_isr(self, request: Request) -> None:
        """Take up the roles and respond with an error per partition, or one for all."""
        body = decode_or_refuse(request, LeaderAndIsrRequest)
        if body is None:
            return
        response = self._role_changes.apply_leader_and_isr(body, request.api_version)
        respond(request, response.encode(request.api_version))

    def handle_stop_replica(self, request: Request) -> None:
        """Give up roles, and logs where that is requested; respond with an error per partition."""
        body = decode_or_refuse(request, StopReplicaRequest)
        if body is None:
            return
        respond(request, self._role_changes.stop_replicas(body).encode(request.api_version))
