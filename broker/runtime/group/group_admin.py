"""DescribeGroups, ListGroups and DeleteGroups: groups as administrators see them. Loop thread.

Source: KafkaApis.handleDescribeGroupsRequest and its like, GroupCoordinator.handleDeleteGroups.
"""

from __future__ import annotations

from functools import partial
from itertools import takewhile
from typing import Final

from broker.core.group.states import GroupState
from broker.runtime.coordinators.slices import in_slices
from broker.runtime.group.coordinator import GroupCoordinator
from broker.runtime.group.hosted_group import HostedGroup
from broker.runtime.requests import authorized_operations
from broker.runtime.requests.decoding import decode_or_refuse
from broker.runtime.requests.request import Request, respond
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from broker.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from broker.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from broker.wire.schema import Elements

_CLASSIC: Final = "classic"


class GroupAdminHandlers:
    """See the module."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    # -- DescribeGroups --------------------------------------------------------------------------------------------

    def handle_describe(self, request: Request) -> None:
        """Respond with state and members of each group; a group that nobody knows is Dead."""
        body = decode_or_refuse(request, DescribeGroupsRequest)
        if body is None:
            return
        groups = [self._described(group_id) for group_id in body.groups]
        if body.include_authorized_operations:
            for group in groups:
                if group.error_code == ErrorCode.NONE:
                    group.authorized_operations = authorized_operations.ON_GROUP
        respond(request, DescribeGroupsResponse(groups=groups).encode(request.api_version))

    def _described(self, group_id: str) -> DescribedGroup:
        hosted = self._coordinator.find(group_id)
        if isinstance(hosted, ErrorCode):
            return DescribedGroup(hosted, group_id)
        if hosted is None:
            return DescribedGroup(ErrorCode.NONE, group_id, GroupState.DEAD.value)
        summary = hosted.group.describe()
        return DescribedGroup(
            ErrorCode.NONE,
            group_id,
            summary.state.value,
            summary.protocol_type,
            summary.protocol,
            [
                DescribedGroupMember(
                    member.member_id,
                    member.group_instance_id,
                    member.client_id,
                    member.client_host,
                    member.metadata,
                    member.assignment,
                )
                for member in summary.members
            ],
        )

    # -- ListGroups ------------------------------------------------------------------------------------------------

    def handle_list(self, request: Request) -> None:
        """Respond with the groups of this broker, by state and type where the request names some."""
        body = decode_or_refuse(request, ListGroupsRequest)
        if body is None:
            return
        states = {state.lower() for state in body.states_filter}
        types = {type_.lower() for type_ in body.types_filter}
        groups: Elements[ListedGroup] = Elements(ListedGroup, ApiKey.LIST_GROUPS, request.api_version)

        def look(hosted: HostedGroup) -> int:
            group = hosted.group
            if not states or group.state.value.lower() in states:
                groups.add(ListedGroup(group.group_id, group.protocol_type or "", group.state.value, _CLASSIC))
            return 1

        def reply() -> None:
            loading = self._coordinator.partitions.loading
            error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loading else ErrorCode.NONE
            response = ListGroupsResponse(error_code=error, groups=groups.as_list())
            respond(request, response.encode(request.api_version))

        wanted = self._coordinator.all_groups() if not types or _CLASSIC in types else iter(())
        in_slices(self._coordinator.loop, takewhile(lambda _: request.open, wanted), look, reply)

    # -- DeleteGroups ----------------------------------------------------------------------------------------------

    def handle_delete(self, request: Request) -> None:
        """Respond once each group that is empty is removed, with all its offsets."""
        body = decode_or_refuse(request, DeleteGroupsRequest)
        if body is None:
            return
        names = list(dict.fromkeys(body.groups_names))
        results: dict[str, ErrorCode] = {}

        def note(group_id: str, error: ErrorCode) -> None:
            results[group_id] = error
            if len(results) == len(names):
                response = DeleteGroupsResponse(results=[DeletableGroupResult(name, results[name]) for name in names])
                respond(request, response.encode(request.api_version))

        if not names:
            respond(request, DeleteGroupsResponse(results=[]).encode(request.api_version))
        for name in names:
            hosted = self._coordinator.find(name)
            refused = _not_deletable(hosted)
            if refused is not ErrorCode.NONE or not isinstance(hosted, HostedGroup):
                note(name, refused)
            else:
                self._coordinator.delete_group(hosted, partial(note, name))


def _not_deletable(hosted: HostedGroup | ErrorCode | None) -> ErrorCode:
    if isinstance(hosted, ErrorCode):
        return hosted
    if hosted is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.NONE if hosted.group.state is GroupState.EMPTY else ErrorCode.NON_EMPTY_GROUP
