"""A group that keeps every rule, told as a history: its coordinator fails over, deposed ones answer from memory,
members that come and go, commits that are acknowledged, refused, or never answered.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.support.group_stories import Group
from tests.support.histories import Story

NODES = ("n1", "n2", "n3")
PARTITIONS = 2


@dataclass
class _State:
    """What a coordinator knows."""

    generation: int = 0
    members: dict[str, str | None] = field(default_factory=dict)
    shares: dict[str, tuple[int, ...]] = field(default_factory=dict)
    committed: dict[int, int] = field(default_factory=dict)

    def copied(self) -> _State:
        return _State(self.generation, dict(self.members), dict(self.shares), dict(self.committed))


class GroupLife:
    """`story` has what happened."""

    def __init__(self, rng: Random, topic: str) -> None:
        self.story = Story(topic)
        self._rng = rng
        self._group = Group(self.story)
        self._node = "n1"
        self._now = _State()
        self._deposed: dict[str, _State] = {}
        self._given = dict.fromkeys(range(PARTITIONS), 0)
        self._former: list[tuple[str, int, str | None]] = []
        self._late: list[tuple[str, int, int, int]] = []
        self._ids = 0
        for _ in range(4):
            self.story.send(self.story.now + 1, len(self.story.lines) // 2)

    def live(self, steps: int) -> None:
        self._rebalance()
        for _ in range(steps):
            self._rng.choice(
                (
                    self._poll,
                    self._poll,
                    self._commit,
                    self._commit,
                    self._commit,
                    self._fetch,
                    self._fetch,
                    self._zombie,
                    self._beat,
                    self._unanswered,
                    self._rebalance,
                    self._fail_over,
                    self._restart,
                )
            )()
        for node in NODES:
            self._take_late()
            for partition in range(PARTITIONS):
                offset = self._now.committed.get(partition, -1)
                self._group.fetch(offset, partition=partition, node=node, phase=f"drain-{node}")

    def _member(self) -> tuple[str, str | None]:
        return self._rng.choice(sorted(self._now.members.items(), key=str))

    def _rebalance(self) -> None:
        """A new generation of one to three members, some of them static."""
        old = self._now.generation
        self._former += [(member, old, instance) for member, instance in self._now.members.items()]
        if self._now.members:
            # Somebody is taken out: without that who comes back would have its place.
            member, instance = self._member()
            self._group.ask("leave", member=member, instance=instance, generation=old, node=self._node)
        count = self._rng.randint(1, 3)
        self._now.members = {}
        for nth in range(count):
            self._ids += 1
            self._now.members[f"m{self._ids}"] = f"i{nth}" if self._rng.random() < 0.5 else None
        self._now.generation = old + 1
        owners = sorted(self._now.members)
        for member, instance in self._now.members.items():
            self._group.join(member, old + 1, instance=instance, node=self._node)
        if self._rng.random() < 0.2 and old:
            # The coordinator fails over before the generation is stored: it is given out again.
            self._now.generation, self._now.members = old, {}
            self._fail_over()
            self._rebalance()
            return
        for nth, (member, instance) in enumerate(self._now.members.items()):
            mine = tuple(p for p in range(PARTITIONS) if p % len(owners) == nth)
            self._now.shares[member] = mine
            self._group.sync(member, old + 1, mine, instance=instance, node=self._node)

    def _restart(self) -> None:
        """A static member goes on in the same generation under a new id."""
        static = [(member, instance) for member, instance in self._now.members.items() if instance is not None]
        if not static:
            return
        member, instance = self._rng.choice(static)
        self._ids += 1
        new = f"m{self._ids}"
        del self._now.members[member]
        self._now.members[new] = instance
        self._now.shares[new] = self._now.shares[member]
        self._former.append((member, self._now.generation, instance))
        self._group.join(new, self._now.generation, instance=instance, node=self._node)
        self._group.sync(new, self._now.generation, self._now.shares[new], instance=instance, node=self._node)

    def _poll(self) -> None:
        partition = self._rng.randrange(PARTITIONS)
        member, _ = self._member()
        start = self._given[partition]
        self._given[partition] = start + self._rng.randint(0, 3)
        self.story.poll(
            start, next_position=self._given[partition], partition=partition, group="g0", member=member,
            generation=self._now.generation, consumer=member,
        )  # fmt: skip

    def _commit(self) -> None:
        member, instance = self._member()
        partition = self._rng.randrange(PARTITIONS)
        offset = self._rng.randint(0, self._given[partition])
        begun, before = self.story.now + 1, self._now.committed.get(partition, -1)
        self._now.committed[partition] = offset
        how: dict[str, Any] = {"partition": partition, "instance": instance, "node": self._node}
        if self._rng.random() < 0.3:
            self._group.commit(member, self._now.generation, offset, invoked=begun, completed=begun + 9, **how)
            self._group.fetch(
                self._rng.choice((before, offset)), partition=partition, node=self._node, invoked=begun + 3,
                completed=begun + 5,
            )  # fmt: skip
        else:
            self._group.commit(member, self._now.generation, offset, **how)

    def _unanswered(self) -> None:
        """It may take effect now, later, or never."""
        member, instance = self._member()
        partition = self._rng.randrange(PARTITIONS)
        offset = self._rng.randint(0, self._given[partition])
        self._group.commit(
            member, self._now.generation, offset, partition=partition, instance=instance, node=self._node,
            outcome="info", error="timeout",
        )  # fmt: skip
        self._late.append((member, self._now.generation, partition, offset))

    def _take_late(self) -> None:
        """Where its member is still in that generation, under that id; else it is refused, and nobody hears of it."""
        if self._late and self._rng.random() < 0.5:
            member, generation, partition, offset = self._late.pop()
            if generation == self._now.generation and member in self._now.members:
                self._now.committed[partition] = offset

    def _zombie(self) -> None:
        """Refused: of an old generation, or of an id that its instance has given up."""
        if self._former:
            member, generation, instance = self._rng.choice(self._former)
            self._group.commit(
                member, generation, 0, instance=instance, node=self._node, outcome="fail", error="ILLEGAL_GENERATION"
            )

    def _beat(self) -> None:
        """Heartbeats, which a deposed coordinator answers from memory, and the right one refuses of old generations."""
        node = self._rng.choice([self._node, self._node, *self._deposed])
        state = self._now if node == self._node else self._deposed[node]
        if state.members:
            member, instance = self._rng.choice(sorted(state.members.items(), key=str))
            self._group.ask("heartbeat", member=member, instance=instance, generation=state.generation, node=node)
        if self._former:
            member, generation, instance = self._rng.choice(self._former)
            self._group.ask(
                "heartbeat", member=member, instance=instance, generation=generation, node=self._node, outcome="fail",
                error="ILLEGAL_GENERATION",
            )  # fmt: skip

    def _fetch(self) -> None:
        self._take_late()
        partition = self._rng.randrange(PARTITIONS)
        node = self._rng.choice([self._node, self._node, *self._deposed])
        state = self._now if node == self._node else self._deposed[node]
        self._group.fetch(state.committed.get(partition, -1), partition=partition, node=node)

    def _fail_over(self) -> None:
        self._deposed[self._node] = self._now.copied()
        self._node = self._rng.choice([node for node in NODES if node != self._node])
        self._deposed.pop(self._node, None)
