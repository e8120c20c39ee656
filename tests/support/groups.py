"""A consumer group of the pure rules, driven by hand: requests go in, replies and writes are kept.

Writes wait until `write` says how they ended. Time is what `now` says; `pass_ms` moves it, deadline by deadline.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from itertools import count
from typing import TypeVar

from broker.core.group.effects import (
    Effect,
    HeartbeatResult,
    JoinResult,
    LeaveResult,
    Reply,
    Result,
    Store,
    SyncResult,
)
from broker.core.group.group import Group
from broker.core.group.requests import Heartbeat, JoinGroup, LeaveGroup, LeavingMember, Protocols, SyncGroup
from broker.core.group.settings import GroupSettings, Sources
from broker.core.group.snapshot import GroupSnapshot
from broker.wire.errors import ErrorCode

R = TypeVar("R")
PROTOCOLS: Protocols = (("range", b"r"), ("roundrobin", b"rr"))
SESSION_MS = 10_000
REBALANCE_MS = 60_000
DELAY_MS = 3_000
WALL_MS = 1_700_000_000_000


def subscription(*topics: str) -> bytes:
    """Consumer protocol, version 0."""
    parts = [struct.pack(">hi", 0, len(topics))]
    parts += [struct.pack(">h", len(topic)) + topic.encode() for topic in topics]
    return b"".join(parts) + struct.pack(">i", -1)


def joining(member_id: str = "", instance: str | None = None, **fields: object) -> JoinGroup:
    """A JoinGroup with usual fields; a dynamic member without an id may join at once."""
    values: dict[str, object] = {
        "client_id": "client",
        "client_host": "/127.0.0.1",
        "rebalance_timeout_ms": REBALANCE_MS,
        "session_timeout_ms": SESSION_MS,
        "protocol_type": "consumer",
        "protocols": PROTOCOLS,
        "requires_known_member_id": False,
    }
    return JoinGroup(member_id=member_id, group_instance_id=instance, **{**values, **fields})  # type: ignore[arg-type]


class DrivenGroup:
    """`replies`: by waiter, a number that each request gets. `stores`: writes that are not done yet, in their order."""

    def __init__(self, settings: GroupSettings | None = None, snapshot: GroupSnapshot | None = None) -> None:
        self.now = 1_000.0
        ids = count(1)
        self.sources = Sources(lambda: f"id{next(ids)}", lambda: WALL_MS + int(self.now))
        self.settings = settings or GroupSettings()
        if snapshot is None:
            self.group = Group("g", self.settings, self.sources)
        else:
            self.group = Group.restore(snapshot, self.now, self.settings, self.sources)
        self.waiters = count(1)
        self.asked: set[int] = set()
        self.replies: dict[int, Result] = {}
        self.stores: list[Store] = []

    @property
    def state(self) -> str:
        return self.group.state.value

    def took(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Store):
                self.stores.append(effect)
                continue
            assert isinstance(effect, Reply)
            assert isinstance(effect.waiter, int)
            assert effect.waiter in self.asked, f"a reply to {effect.waiter}, which waits for none"
            self.asked.remove(effect.waiter)
            self.replies[effect.waiter] = effect.result

    def _waiter(self) -> int:
        waiter = next(self.waiters)
        self.asked.add(waiter)
        return waiter

    def join(self, request: JoinGroup) -> int:
        waiter = self._waiter()
        self.took(self.group.join(waiter, request, self.now))
        return waiter

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> int:
        waiter = self._waiter()
        request = SyncGroup(member_id, instance, generation, protocol_type, protocol_name, assignments or {})
        self.took(self.group.sync(waiter, request, self.now))
        return waiter

    def heartbeat(self, member_id: str, generation: int, instance: str | None = None) -> ErrorCode:
        waiter = self._waiter()
        self.took(self.group.heartbeat(waiter, Heartbeat(member_id, instance, generation), self.now))
        return self.result(waiter, HeartbeatResult).error

    def leave(self, *members: tuple[str, str | None]) -> list[ErrorCode]:
        waiter = self._waiter()
        request = LeaveGroup(tuple(LeavingMember(*member) for member in members))
        self.took(self.group.leave(waiter, request, self.now))
        return [left.error for left in self.result(waiter, LeaveResult).members]

    def commit(self, member_id: str, generation: int, instance: str | None = None) -> ErrorCode:
        return self.group.check_commit(member_id, generation, instance, self.now)

    def write(self, error: ErrorCode = ErrorCode.NONE, place: int = 0) -> Store:
        """A write is done: the oldest, or the one at that place after it."""
        store = self.stores.pop(place)
        self.took(self.group.stored(store.token, error, self.now))
        return store

    def pass_ms(self, ms: float) -> None:
        """Time goes on; every deadline in between is met when it is due."""
        end = self.now + ms
        while (due := self.group.next_deadline_ms) is not None and due <= end:
            self.now = max(due, self.now)
            self.took(self.group.on_time(self.now))
        self.now = end

    def pass_alive(self, ms: float, generation: int, *member_ids: str) -> None:
        """Time goes on, and these members show themselves twice a session."""
        for _ in range(int(ms / (SESSION_MS / 2))):
            for member_id in member_ids:
                self.heartbeat(member_id, generation)
            self.pass_ms(SESSION_MS / 2)

    def result(self, waiter: int, kind: type[R]) -> R:
        result = self.replies[waiter]
        assert isinstance(result, kind)
        return result

    def joined(self, waiter: int) -> JoinResult:
        return self.result(waiter, JoinResult)

    def synced(self, waiter: int) -> SyncResult:
        return self.result(waiter, SyncResult)

    def waits(self, waiter: int) -> bool:
        return waiter in self.asked

    def stable(self, *requests: JoinGroup) -> list[str]:
        """All join the empty group and get assignments that are their own member ids; those ids, the leader's first."""
        assert self.state == "Empty"
        waiters = [self.join(request) for request in requests]
        self.pass_ms(self.settings.initial_rebalance_delay_ms * (len(requests) > 0))
        while any(self.waits(waiter) for waiter in waiters):
            self.pass_ms(self.settings.initial_rebalance_delay_ms)
        return self.settle(waiters)

    def settle(self, waiters: list[int]) -> list[str]:
        """The generation that these have joined becomes stable."""
        results = [self.joined(waiter) for waiter in waiters]
        assert all(result.error is ErrorCode.NONE for result in results)
        ids = [result.member_id for result in results]
        leader = results[0].leader
        assigned = {member_id: member_id.encode() for member_id in ids}
        syncs = [
            self.sync(member_id, results[0].generation, assigned if member_id == leader else None) for member_id in ids
        ]
        self.write()
        assert [self.synced(sync).assignment for sync in syncs] == [member_id.encode() for member_id in ids]
        assert self.state == "Stable"
        return sorted(ids, key=lambda member_id: member_id != leader)
