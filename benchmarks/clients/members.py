"""Members of consumer groups that join and send heartbeats, with nothing to share; each on its own connection."""

from __future__ import annotations

from benchmarks.clients.wire import Line, Wire, frame
from benchmarks.process import BenchmarkFailed
from broker.wire.errors import ErrorCode
from broker.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from broker.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from broker.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from broker.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

SESSION_MS = 45_000
_REBALANCE_MS = 300_000
_JOIN_VERSION, _SYNC_VERSION, _HEARTBEAT_VERSION, _LEAVE_VERSION = 7, 5, 4, 4
_TYPE, _PROTOCOL = "consumer", "range"
# Version 0 of Kafka's ConsumerProtocol: a subscription to no topic, and an assignment of no partition.
_NOTHING = b"\0\0" + b"\0\0\0\0" + b"\xff\xff\xff\xff"
_AGAIN_S = 0.05
_PASSING = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
_LOST = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})


class GroupMember:
    """generation: the one whose assignment it has, -1 while it has none. heartbeats: answered."""

    def __init__(self, wire: Wire, line: Line, group: str, heartbeat_s: float) -> None:
        self._wire, self._line, self._group, self._heartbeat_s = wire, line, group, heartbeat_s
        self._id = ""
        self._left = False
        self._beat = frame(HeartbeatRequest(group, -1, ""), _HEARTBEAT_VERSION)
        self.generation = -1
        self.heartbeats = 0

    def join(self) -> None:
        self.generation = -1
        protocols = [JoinGroupRequestProtocol(_PROTOCOL, _NOTHING)]
        request = JoinGroupRequest(self._group, SESSION_MS, _REBALANCE_MS, self._id, None, _TYPE, protocols)
        self._line.send(frame(request, _JOIN_VERSION), self._joined)

    def _joined(self, body: memoryview) -> None:
        response = JoinGroupResponse.decode(_JOIN_VERSION, body)
        error = response.error_code
        if error == ErrorCode.MEMBER_ID_REQUIRED:
            self._id = response.member_id
            self.join()
        elif error:
            self._again("JoinGroup", error)
        else:
            self._id = response.member_id
            self._sync(response)

    def _sync(self, joined: JoinGroupResponse) -> None:
        # Only the leader is told of members.
        assignments = [SyncGroupRequestAssignment(member.member_id, _NOTHING) for member in joined.members]
        generation = joined.generation_id
        request = SyncGroupRequest(self._group, generation, self._id, None, _TYPE, _PROTOCOL, assignments)

        def synced(body: memoryview) -> None:
            error = SyncGroupResponse.decode(_SYNC_VERSION, body).error_code
            if error:
                self._again("SyncGroup", error)
                return
            self.generation = generation
            self._beat = frame(HeartbeatRequest(self._group, generation, self._id), _HEARTBEAT_VERSION)
            self._wire.later(self._heartbeat_s, self._send_beat)

        self._line.send(frame(request, _SYNC_VERSION), synced)

    def _send_beat(self) -> None:
        if not self._left:
            self._line.send(self._beat, self._beaten)

    def _beaten(self, body: memoryview) -> None:
        if self._left:
            return
        self.heartbeats += 1
        error = HeartbeatResponse.decode(_HEARTBEAT_VERSION, body).error_code
        if error:
            self._again("Heartbeat", error)
        else:
            self._wire.later(self._heartbeat_s, self._send_beat)

    def _again(self, what: str, error: int) -> None:
        """Join again, as another where it is told that it is none any more. Raises BenchmarkFailed."""
        if error in _LOST:
            self._id = ""
        if error in _PASSING:
            self._wire.later(_AGAIN_S, self.join)
        elif error in _LOST or error == ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
        else:
            raise BenchmarkFailed(f"{what} in {self._group}: error {error}")

    def leave(self) -> None:
        """For good; another member may use the connection."""
        self._left = True
        request = LeaveGroupRequest(self._group, members=[MemberIdentity(self._id)])
        self._line.send(frame(request, _LEAVE_VERSION), lambda _: None)
