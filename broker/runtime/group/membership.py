"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup, from request to reply. Loop thread.

Source: KafkaApis.handleJoinGroupRequest and its like, GroupCoordinator.validateGroupStatus.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from broker.core.group import requests
from broker.core.group.effects import HeartbeatResult, JoinResult, LeaveResult, LeftMember, Result, SyncResult
from broker.runtime.group.coordinator import GroupCoordinator
from broker.runtime.group.hosted_group import HostedGroup
from broker.runtime.requests.decoding import decode_or_refuse
from broker.runtime.requests.request import Request, give_up, respond
from broker.wire.errors import ErrorCode
from broker.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from broker.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from broker.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from broker.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from broker.wire.primitives import STRING_BYTES_MAX

logger = logging.getLogger(__name__)

_KNOWN_MEMBER_IDS_FROM: Final = 4
"""Of JoinGroup: a new dynamic member is given its id first (KIP-394)."""
_REBALANCE_TIMEOUT_FROM: Final = 1
_SKIPS_ASSIGNMENT_FROM: Final = 9
_NULL_PROTOCOL_FROM: Final = 7
_NAMES_PROTOCOL_FROM: Final = 5
"""Of SyncGroup (KIP-559)."""
_MANY_LEAVE_FROM: Final = 3

R = TypeVar("R")


class _Waiter(Generic[R]):
    """Satisfies `hosted_group.Waiter`."""

    __slots__ = ("_of_error", "_reply", "_request")

    def __init__(self, request: Request, reply: Callable[[R], None], of_error: Callable[[ErrorCode], R]) -> None:
        self._request = request
        self._reply = reply
        self._of_error = of_error

    def reply(self, result: Result) -> None:
        self._respond(result)  # type: ignore[arg-type]

    def fail(self, error: ErrorCode) -> None:
        self._respond(self._of_error(error))

    def _respond(self, result: R) -> None:
        """The other members have their answers too, and the group its timer, whatever becomes of this one's."""
        try:
            self._reply(result)
        except Exception:
            logger.exception("%r of a group is not answered", self._request.client_id)
            give_up(self._request.slot)


class MembershipHandlers:
    """See the module."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    def _find(self, group_id: str) -> HostedGroup | ErrorCode | None:
        return self._coordinator.find(group_id) if group_id else ErrorCode.INVALID_GROUP_ID

    # -- JoinGroup -------------------------------------------------------------------------------------------------

    def handle_join(self, request: Request) -> None:
        """Respond once the group has come together, or with why this member may not join."""
        body = decode_or_refuse(request, JoinGroupRequest)
        if body is None:
            return
        version = request.api_version

        def reply(result: JoinResult) -> None:
            respond(request, _join_response(result, version).encode(version))

        def refuse(error: ErrorCode) -> None:
            reply(JoinResult(error, body.member_id))

        if len(request.client_id.encode()) > STRING_BYTES_MAX:
            # Bytes that are not UTF-8 were replaced by longer ones, and the group's record could not hold them.
            refuse(ErrorCode.INVALID_REQUEST)
            return
        hosted = self._find(body.group_id)
        if hosted is None:
            if body.member_id:
                refuse(ErrorCode.UNKNOWN_MEMBER_ID)
                return
            hosted = self._coordinator.find_or_make(body.group_id)
        if isinstance(hosted, ErrorCode):
            refuse(hosted)
            return
        has_timeout = version >= _REBALANCE_TIMEOUT_FROM
        hosted.join(
            _Waiter(request, reply, lambda error: JoinResult(error, body.member_id)),
            requests.JoinGroup(
                member_id=body.member_id,
                group_instance_id=body.group_instance_id,
                client_id=request.client_id,
                client_host="/" + request.context.client_address.rpartition(":")[0],
                rebalance_timeout_ms=body.rebalance_timeout_ms if has_timeout else body.session_timeout_ms,
                session_timeout_ms=body.session_timeout_ms,
                protocol_type=body.protocol_type,
                protocols=tuple((protocol.name, protocol.metadata) for protocol in body.protocols),
                requires_known_member_id=version >= _KNOWN_MEMBER_IDS_FROM and body.group_instance_id is None,
                supports_skipping_assignment=version >= _SKIPS_ASSIGNMENT_FROM,
                reason=body.reason,
            ),
        )
        self._coordinator.forget_if_new(hosted)

    # -- SyncGroup -------------------------------------------------------------------------------------------------

    def handle_sync(self, request: Request) -> None:
        """Respond with the member's assignment, once the leader has sent it and it is stored."""
        body = decode_or_refuse(request, SyncGroupRequest)
        if body is None:
            return
        version = request.api_version

        def reply(result: SyncResult) -> None:
            response = SyncGroupResponse(
                error_code=result.error,
                protocol_type=result.protocol_type,
                protocol_name=result.protocol_name,
                assignment=result.assignment,
            )
            respond(request, response.encode(version))

        if version >= _NAMES_PROTOCOL_FROM and (body.protocol_type is None or body.protocol_name is None):
            reply(SyncResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
            return
        hosted = self._find(body.group_id)
        if hosted is None:
            reply(SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))
        elif hosted is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            # The group is loaded as stable, so the member has to join it anew.
            reply(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        elif isinstance(hosted, ErrorCode):
            reply(SyncResult(hosted))
        else:
            hosted.sync(
                _Waiter(request, reply, SyncResult),
                requests.SyncGroup(
                    member_id=body.member_id,
                    group_instance_id=body.group_instance_id,
                    generation=body.generation_id,
                    protocol_type=body.protocol_type,
                    protocol_name=body.protocol_name,
                    assignments={entry.member_id: entry.assignment for entry in body.assignments},
                ),
            )

    # -- Heartbeat -------------------------------------------------------------------------------------------------

    def handle_heartbeat(self, request: Request) -> None:
        """Respond whether the member is still one, or has to join anew."""
        body = decode_or_refuse(request, HeartbeatRequest)
        if body is None:
            return

        def reply(result: HeartbeatResult) -> None:
            respond(request, HeartbeatResponse(error_code=result.error).encode(request.api_version))

        hosted = self._find(body.group_id)
        if hosted is None:
            reply(HeartbeatResult(ErrorCode.UNKNOWN_MEMBER_ID))
        elif hosted is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            reply(HeartbeatResult(ErrorCode.NONE))
        elif isinstance(hosted, ErrorCode):
            reply(HeartbeatResult(hosted))
        else:
            hosted.heartbeat(
                _Waiter(request, reply, HeartbeatResult),
                requests.Heartbeat(body.member_id, body.group_instance_id, body.generation_id),
            )

    # -- LeaveGroup ------------------------------------------------------------------------------------------------

    def handle_leave(self, request: Request) -> None:
        """Respond for each member that leaves, or is made to leave."""
        body = decode_or_refuse(request, LeaveGroupRequest)
        if body is None:
            return
        version = request.api_version
        if version >= _MANY_LEAVE_FROM:
            leaving = tuple(
                requests.LeavingMember(member.member_id, member.group_instance_id, member.reason)
                for member in body.members
            )
        else:
            leaving = (requests.LeavingMember(body.member_id, None, None),)

        def reply(result: LeaveResult) -> None:
            respond(request, _leave_response(result, version).encode(version))

        hosted = self._find(body.group_id)
        if hosted is None:
            unknown = ErrorCode.UNKNOWN_MEMBER_ID
            left = tuple(LeftMember(member.member_id, member.group_instance_id, unknown) for member in leaving)
            reply(LeaveResult(ErrorCode.NONE, left))
        elif isinstance(hosted, ErrorCode):
            reply(LeaveResult(hosted))
        else:
            hosted.leave(_Waiter(request, reply, LeaveResult), requests.LeaveGroup(leaving))


def _join_response(result: JoinResult, version: int) -> JoinGroupResponse:
    name = result.protocol_name
    return JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation,
        protocol_type=result.protocol_type,
        protocol_name="" if name is None and version < _NULL_PROTOCOL_FROM else name,
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[JoinGroupResponseMember(m.member_id, m.group_instance_id, m.metadata) for m in result.members],
    )


def _leave_response(result: LeaveResult, version: int) -> LeaveGroupResponse:
    error = result.error
    if version < _MANY_LEAVE_FROM:
        if error is ErrorCode.NONE and result.members:
            error = result.members[0].error
        return LeaveGroupResponse(error_code=error)
    return LeaveGroupResponse(
        error_code=error,
        members=[MemberResponse(left.member_id, left.group_instance_id, left.error) for left in result.members],
    )
