"""Clients of one consumer group that behave as Kafka's do, and what can go wrong around them.

Clients stop without a word and static ones come back without their member id, writes fail, the coordinator crashes
and another one loads what was written. Partitions are numbers, which the leader deals out in turn.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from broker.core.group.effects import JoinResult, SyncResult
from broker.core.group.group import Group
from broker.core.group.settings import GroupSettings
from broker.core.group.snapshot import GroupSnapshot
from broker.wire.errors import ErrorCode
from tests.property.core.group_invariants import check_group
from tests.support.groups import DrivenGroup, joining

NONE = ErrorCode.NONE
PARTITIONS = range(6)
SESSION_MS = 6_000
REBALANCE_MS = 9_000
STEP_MS = 1_000


@dataclass
class Client:
    """generation: −1 before it has joined. waiter: of its request that is not answered.

    owned: None before it has synced.
    """

    name: str
    instance: str | None
    member_id: str = ""
    generation: int = -1
    waiter: int | None = None
    owned: frozenset[int] | None = None

    def start_over(self) -> None:
        self.member_id = ""
        self.rejoin()

    def rejoin(self) -> None:
        self.generation = -1
        self.waiter = None
        self.owned = None


class Clients:
    """`rng` decides everything. owners: (generation, partition) → whose commit for it was taken."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.driven = DrivenGroup(GroupSettings())
        self.durable: GroupSnapshot | None = None
        self.owners: dict[tuple[int, int], str] = {}
        self.names = 0
        self.clients: list[Client] = []
        for _ in range(rng.randint(1, 4)):
            self.start()

    @property
    def group(self) -> Group:
        return self.driven.group

    def start(self) -> None:
        self.names += 1
        name = f"c{self.names}"
        self.clients.append(Client(name, name if self.rng.random() < 0.5 else None))

    def turn(self, client: Client) -> None:
        """What the client does next: take an answer, or send the request that is due."""
        if client.waiter is not None:
            result = self.driven.replies.get(client.waiter)
            if result is not None:
                client.waiter = None
                self._take(client, result)
        elif client.generation == -1:
            client.waiter = self.driven.join(
                joining(
                    client.member_id,
                    client.instance,
                    requires_known_member_id=True,
                    session_timeout_ms=SESSION_MS,
                    rebalance_timeout_ms=REBALANCE_MS,
                )
            )
        elif client.owned is not None:
            error = self.driven.heartbeat(client.member_id, client.generation, client.instance)
            if error is NONE:
                error = self.driven.commit(client.member_id, client.generation, client.instance)
                if error is NONE:
                    self._committed(client)
            self._failed(client, error)

    def _take(self, client: Client, result: object) -> None:
        if isinstance(result, JoinResult):
            if result.error is ErrorCode.MEMBER_ID_REQUIRED:
                client.member_id = result.member_id
            elif result.error is not NONE:
                self._failed(client, result.error)
            else:
                client.member_id, client.generation = result.member_id, result.generation
                self._sync(client, result)
        else:
            assert isinstance(result, SyncResult)
            if result.error is NONE:
                client.owned = frozenset(result.assignment)
            self._failed(client, result.error)

    def _sync(self, client: Client, result: JoinResult) -> None:
        dealt: dict[str, bytes] = {}
        if result.members and not result.skip_assignment:
            ids = [member.member_id for member in result.members]
            dealt = {each: bytes(PARTITIONS[n :: len(ids)]) for n, each in enumerate(ids)}
        client.waiter = self.driven.sync(client.member_id, client.generation, dealt, client.instance)

    def _failed(self, client: Client, error: ErrorCode) -> None:
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.ILLEGAL_GENERATION):
            client.start_over()
        elif error is not NONE:
            client.rejoin()

    def _committed(self, client: Client) -> None:
        assert client.owned is not None
        person = client.instance or client.member_id
        for partition in client.owned:
            owner = self.owners.setdefault((client.generation, partition), person)
            assert owner == person, f"{owner} and {person} own {partition} in generation {client.generation}"

    def write(self, error: ErrorCode = NONE) -> None:
        if self.driven.stores:
            store = self.driven.write(error)
            if error is NONE:
                self.durable = store.snapshot

    def crash_coordinator(self) -> None:
        """What was written is loaded elsewhere; requests that waited there are answered."""
        before = self.driven
        before.took(self.group.unload(ErrorCode.NOT_COORDINATOR, before.now))
        before.stores.clear()
        if self.durable is None:
            before.group = Group("g", before.settings, before.sources)
        else:
            before.group = Group.restore(self.durable, before.now, before.settings, before.sources)

    def chaos(self) -> None:
        """One step in which anything may happen."""
        what = self.rng.random()
        if what < 0.03 and len(self.clients) < 6:
            self.start()
        elif what < 0.06 and self.clients:
            self.clients.remove(self.rng.choice(self.clients))
        elif what < 0.10 and self.clients:
            self.rng.choice(self.clients).start_over()
        elif what < 0.12:
            self.crash_coordinator()
        elif what < 0.16:
            self.write(self.rng.choice((ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)))
        elif what < 0.45:
            self.write()
        elif what < 0.60:
            self.driven.pass_ms(self.rng.choice((1, STEP_MS, STEP_MS, SESSION_MS)))
        elif self.clients:
            self.turn(self.rng.choice(self.clients))
        check_group(self.group._machine)

    def calm(self) -> None:
        """Each does in time what it has to do, for as long as the slowest recovery may take."""
        for _ in range((SESSION_MS + 3 * REBALANCE_MS) // STEP_MS * 2):
            for client in self.clients:
                self.turn(client)
            while self.driven.stores:
                self.write()
            self.driven.pass_ms(STEP_MS)
            check_group(self.group._machine)

    def check_settled(self) -> None:
        """All that run are members of one generation and share the partitions; others are forgotten."""
        if not self.clients:
            assert self.group.is_empty
            return
        assert self.driven.state == "Stable"
        shown = {member.member_id for member in self.group.describe().members}
        assert shown == {client.member_id for client in self.clients}
        assert {client.generation for client in self.clients} == {self.group.generation}
        owned = sorted(partition for client in self.clients for partition in client.owned or ())
        assert owned == list(PARTITIONS)
