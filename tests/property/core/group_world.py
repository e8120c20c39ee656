"""One consumer group, requests of anybody at any time, writes that fail, and a coordinator that crashes.

What was answered is compared with what was answered before: `Answers` knows no rule of the group but these promises.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from broker.core.group.effects import JoinResult, SyncResult
from broker.core.group.group import Group
from broker.core.group.requests import JoinGroup, Protocols
from broker.core.group.settings import GroupSettings
from broker.core.group.snapshot import GroupSnapshot
from broker.wire.errors import ErrorCode
from tests.property.core.group_invariants import check_group
from tests.support.groups import DrivenGroup, joining

NONE = ErrorCode.NONE
INSTANCES = ("i", "j")
PROTOCOLS: tuple[Protocols, ...] = (
    (("a", b"1"), ("b", b"1")),
    (("b", b"1"), ("a", b"2")),
    (("a", b"2"),),
    (("b", b"1"),),
    (("a", b"1"), ("a", b"2")),
)
WRITE_ERRORS = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.REBALANCE_IN_PROGRESS)


@dataclass
class Answers:
    """leader, protocol, nonce: by generation. A person is an instance or a dynamic member, whatever id it has."""

    persons: dict[str, str] = field(default_factory=dict)
    leaders: dict[int, str] = field(default_factory=dict)
    protocols: dict[int, str | None] = field(default_factory=dict)
    nonces: dict[int, bytes] = field(default_factory=dict)
    current_ids: dict[str, str] = field(default_factory=dict)
    """By instance, the id it was told last."""
    fenced: set[str] = field(default_factory=set)
    """Ids of instances that were told another one since."""

    def joined(self, request: JoinGroup, result: JoinResult) -> None:
        if result.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.persons[result.member_id] = result.member_id
        if result.error is not NONE:
            assert not result.members
            return
        instance = request.group_instance_id
        person = self.persons.setdefault(result.member_id, instance or result.member_id)
        generation = result.generation
        if instance is not None:
            former = self.current_ids.get(instance, result.member_id)
            self.current_ids[instance] = result.member_id
            self.fenced |= {former} - {result.member_id}
        for member in result.members:
            self.persons[member.member_id] = member.group_instance_id or member.member_id
        if result.leader == result.member_id:
            assert result.member_id in {member.member_id for member in result.members}
        else:
            assert not result.members
        leader = self.persons.get(result.leader)
        if leader is not None:
            assert self.leaders.setdefault(generation, leader) == leader, "two leaders of one generation"
        assert self.protocols.setdefault(generation, result.protocol_name) == result.protocol_name
        assert result.protocol_name in {name for name, _ in request.protocols} or person in self.leaders.values()

    def synced(self, member_id: str, generation: int, result: SyncResult) -> None:
        if result.error is not NONE:
            assert result == SyncResult(result.error)
            return
        if result.assignment:
            of_generation, of_person, nonce = result.assignment.split(b"/")
            assert int(of_generation) == generation, "an assignment of another generation"
            assert of_person.decode() == self.persons[member_id], "an assignment of another member"
            assert self.nonces.setdefault(generation, nonce) == nonce, "assignments of two syncs in one generation"

    def accepted(self, member_id: str) -> None:
        """A request in the name of this id was taken."""
        assert member_id not in self.fenced, f"{member_id} was fenced by {self.current_ids}"

    def forget_after(self, generation: int) -> None:
        """A new coordinator knows what was written, and may use later generations again."""
        for by_generation in (self.leaders, self.protocols, self.nonces):
            for later in [each for each in by_generation if each > generation]:
                del by_generation[later]
        self.current_ids.clear()
        self.fenced.clear()


class World:
    """`rng` decides everything."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.settings = GroupSettings(
            max_size=rng.choice((3, 100)),
            initial_rebalance_delay_ms=rng.choice((0, 3_000)),
            max_pending_members=rng.choice((2, 100)),
        )
        self.driven = DrivenGroup(self.settings)
        self.answers = Answers()
        self.requests: dict[int, JoinGroup | tuple[str, int]] = {}
        self.done = 0
        self.durable: GroupSnapshot | None = None
        self.durable_token = 0
        self.ids = ["", "made up"]
        self.nonce = 0

    @property
    def group(self) -> Group:
        return self.driven.group

    def step(self) -> None:
        # Weights by which every state is reached, and left, often enough.
        state = self.driven.state
        weighted = (
            (self.join_new, 1 if state in ("CompletingRebalance", "Stable") else 3),
            (self.join_again, 12 if state == "PreparingRebalance" else 1),
            (self.sync, 12 if state == "CompletingRebalance" else 2),
            (self.heartbeat, 3),
            (self.commit, 2),
            (self.leave, 0.5),
            (self.write, 10),
            (self.time, 3 if state == "PreparingRebalance" else 1),
            (self.crash, 0.2),
        )
        [action] = self.rng.choices([each for each, _ in weighted], [weight for _, weight in weighted])
        action()
        self.check()

    def check(self) -> None:
        check_group(self.group._machine)
        machine = self.group._machine
        waiting = [each for member in machine.members for each in (member.waiting_join, member.waiting_sync) if each]
        assert sorted(waiting, key=str) == sorted(self.driven.asked, key=str), "a waiter was forgotten"
        for waiter in [each for each in self.requests if each in self.driven.replies]:
            request, result = self.requests.pop(waiter), self.driven.replies[waiter]
            if isinstance(request, JoinGroup):
                assert isinstance(result, JoinResult)
                self.ids.append(result.member_id)
                self.answers.joined(request, result)
            else:
                assert isinstance(result, SyncResult)
                self.answers.synced(*request, result)

    def _any_id(self) -> str:
        members = [member.member_id for member in self.group.describe().members]
        return self.rng.choice(members) if members and self.rng.random() < 0.8 else self.rng.choice(self.ids[-12:])

    def _instance_of(self, member_id: str) -> str | None:
        for member in self.group.describe().members:
            if member.member_id == member_id:
                return member.group_instance_id
        return self.rng.choice((None, None, *INSTANCES))

    def _any_generation(self) -> int:
        return self.group.generation + self.rng.choice((0, 0, 0, 0, 0, 0, -1, 1))

    def _request(self, member_id: str, instance: str | None) -> JoinGroup:
        machine = self.group._machine
        member = machine.members.get(member_id)
        unchanged = member is not None and self.rng.random() < 0.7
        return joining(
            member_id,
            instance,
            requires_known_member_id=self.rng.random() < 0.5,
            supports_skipping_assignment=self.rng.random() < 0.5,
            session_timeout_ms=self.rng.choice((6_000, 20_000)),
            rebalance_timeout_ms=self.rng.choice((0, 5_000, 15_000)),
            protocols=member.protocols if member is not None and unchanged else self.rng.choice(PROTOCOLS),
        )

    def _join(self, member_id: str, instance: str | None) -> None:
        request = self._request(member_id, instance)
        waiter = self.driven.join(request)
        self.requests[waiter] = request

    def join_new(self) -> None:
        self._join("", self.rng.choice((None, None, *INSTANCES)))

    def join_again(self) -> None:
        member_id = self._any_id()
        self._join(member_id, self._instance_of(member_id))

    def sync(self) -> None:
        member_id, generation = self._any_id(), self._any_generation()
        assignments: dict[str, bytes] = {}
        self.nonce += 1
        for member in self.group.describe().members:
            person = member.group_instance_id or member.member_id
            assignments[member.member_id] = f"{generation}/{person}/{self.nonce}".encode()
            self.answers.persons[member.member_id] = person
        waiter = self.driven.sync(member_id, generation, assignments, self._instance_of(member_id))
        self.requests[waiter] = (member_id, generation)
        result = self.driven.replies.get(waiter)
        assert result is None or isinstance(result, SyncResult)
        if result is None or result.error is NONE:
            self._was_accepted(member_id, generation)

    def _was_accepted(self, member_id: str, generation: int) -> None:
        assert generation == self.group.generation, "a member of another generation was taken"
        assert member_id in {member.member_id for member in self.group.describe().members}
        self.answers.accepted(member_id)

    def heartbeat(self) -> None:
        member_id, generation = self._any_id(), self._any_generation()
        error = self.driven.heartbeat(member_id, generation, self._instance_of(member_id))
        if error in (NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self._was_accepted(member_id, generation)

    def commit(self) -> None:
        member_id, generation = self._any_id(), self._any_generation()
        empty = self.group.is_empty
        if self.driven.commit(member_id, generation, self._instance_of(member_id)) is not NONE:
            return
        if empty:
            assert generation < 0
        else:
            self._was_accepted(member_id, generation)

    def leave(self) -> None:
        member_id = self._any_id()
        self.driven.leave((member_id, self._instance_of(member_id)), ("", self.rng.choice((None, None, *INSTANCES))))

    def write(self) -> None:
        """A write ends, mostly the oldest; what the log has of two that succeeded is the later one."""
        if not self.driven.stores:
            return
        error = self.rng.choice((NONE, NONE, NONE, self.rng.choice(WRITE_ERRORS)))
        place = self.rng.randrange(len(self.driven.stores)) if self.rng.random() < 0.2 else 0
        store = self.driven.write(error, place)
        if error is NONE and store.token > self.durable_token:
            self.durable, self.durable_token = store.snapshot, store.token

    def time(self) -> None:
        due = self.group.next_deadline_ms
        if due is None or self.rng.random() < 0.5:
            self.driven.pass_ms(self.rng.choice((1, 500, 3_000)))
        elif self.rng.random() < 0.8:
            self.driven.pass_ms(max(due - self.driven.now, 0))
        else:
            # A loop that was held up: everything is late at once.
            self.driven.now += self.rng.choice((10_000, 100_000))
            self.driven.took(self.group.on_time(self.driven.now))
            after = self.group.next_deadline_ms
            assert after is None or after > self.driven.now

    def crash(self) -> None:
        """The coordinator is gone; another one begins with what was written. Clients learn nothing."""
        self.driven.took(self.group.unload(ErrorCode.NOT_COORDINATOR, self.driven.now))
        self.check()
        assert not self.driven.asked
        assert self.group.next_deadline_ms is None
        for store in self.driven.stores:
            self.driven.took(self.group.stored(store.token, NONE, self.driven.now))
        before, self.driven = self.driven, DrivenGroup(self.settings, self.durable)
        self.driven.now = before.now
        self.driven.sources = before.sources
        self.driven.waiters = before.waiters
        if self.durable is None:
            self.driven.group = Group("g", self.settings, before.sources)
        else:
            self.driven.group = Group.restore(self.durable, before.now, self.settings, before.sources)
        self.answers.forget_after(self.group.generation)
        self.requests.clear()
        self.durable_token = 0

    def silence(self) -> None:
        """Nobody asks any more: the group ends up empty, and nobody waits."""
        for _ in range(100):
            while self.driven.stores:
                self.write()
            if self.group.next_deadline_ms is None:
                break
            self.driven.pass_ms(10_000)
            self.check()
        assert self.group.is_empty, f"silent members hold the group in {self.driven.state}"
        assert not self.driven.asked
        assert not self.group._machine.deadlines._due
        assert not self.group._machine.writes
