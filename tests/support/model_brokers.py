"""Brokers, their controller and ZooKeeper that keep every rule: pull replication in single steps, elections, faults.

One topic, three brokers. Times are milliseconds of one clock. All that they do stands in `events`, the lines of their
event logs, and in `znodes`, ZooKeeper's transactions; `story` is the history of the run.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.support.histories import Story


@dataclass
class Partition:
    number: int
    name: str
    replicas: list[int]
    leader: int
    isr: list[int]
    leader_epoch: int = 0
    version: int = 0
    logs: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    hw: dict[int, int] = field(default_factory=dict)
    asked: dict[int, int] = field(default_factory=dict)
    """What the leader knows of each follower's LEO in this epoch."""


class ModelBrokers:
    """topic and first_broker keep several clusters apart in one table."""

    def __init__(
        self, rng: Random, topic: str = "hw", *, partitions: int = 1, first_broker: int = 1, min_isr: int = 2
    ) -> None:
        self.rng = rng
        self.story = Story(topic)
        self.topic = topic
        self.min_isr = min_isr
        self.events: list[dict[str, Any]] = []
        self.znodes: list[dict[str, Any]] = []
        self.brokers = [first_broker + nth for nth in range(3)]
        self.alive: set[int] = set()
        self.hung: set[int] = set()
        self.incarnation: dict[int, int] = dict.fromkeys(self.brokers, 0)
        self.sequence: dict[int, int] = {}
        self.broker_epoch: dict[int, int] = {}
        # Clusters in one table are told apart by broker ids; their zxids and controller epochs rise with those.
        self.controller_epoch = first_broker
        self.next_zxid = first_broker * 1_000_000 + 1 if first_broker > 1 else 1
        self.next_rid = 1
        self.faults = 0
        self._znode("create", "/controller_epoch", 0, str(self.controller_epoch))
        self.partitions: list[Partition] = []
        for broker in self.brokers:
            self._boot(broker)
        self._emit(self.brokers[2], "controller", ce=self.controller_epoch, what="elected")
        for number in range(partitions):
            turn = number % 3
            replicas = self.brokers[turn:] + self.brokers[:turn]
            p = Partition(number, f"{topic}-{number}", replicas, replicas[0], list(replicas))
            p.logs = {broker: [] for broker in replicas}
            p.hw = dict.fromkeys(replicas, 0)
            self.partitions.append(p)
        assigned = {str(p.number): p.replicas for p in self.partitions}
        self._znode("create", f"/brokers/topics/{topic}", 0, json.dumps({"version": 3, "partitions": assigned}))
        for p in self.partitions:
            self._state(p, "new-topic")
            self._roles(p)

    # -- telling ---------------------------------------------------------------------------------------------------

    def name(self, broker: int) -> str:
        return f"n{broker}"

    def _tick(self) -> int:
        self.story.now += 1
        return self.story.now

    def _emit(self, broker: int, e: str, **fields: Any) -> None:
        ns = self._tick() * 1_000_000
        line = {
            "e": e,
            "b": broker,
            "i": f"{self.topic}x{broker}x{self.incarnation[broker]}",
            "s": self.sequence[broker],
            "w": ns,
            "m": ns,
        }
        self.sequence[broker] += 1
        self.events.append({**line, **fields, "node": self.name(broker)})

    def _znode(self, op: str, path: str, version: int | None, data: str | None) -> int:
        zxid = self.next_zxid
        self.next_zxid += 1
        self.znodes.append(
            {
                "node": "zk1",
                "zxid": zxid,
                "position": 0,
                "time_ms": self.story.now,
                "session": 7,
                "op": op,
                "path": path,
                "version": version,
                "data": data,
            }
        )
        return zxid

    def _state(self, p: Partition, reason: str | None) -> None:
        path = f"/brokers/topics/{self.topic}/partitions/{p.number}/state"
        data = {
            "version": 1,
            "leader": p.leader,
            "leader_epoch": p.leader_epoch,
            "controller_epoch": self.controller_epoch,
            "isr": p.isr,
        }
        self._znode("create" if p.version == 0 else "set", path, p.version, json.dumps(data))
        controller = next((b for b in reversed(self.brokers) if b in self.alive), None)
        if reason is not None and controller is not None:
            self._emit(
                controller,
                "election",
                p=p.name,
                ce=self.controller_epoch,
                le=p.leader_epoch,
                pe=p.version,
                leader=p.leader,
                isr=p.isr,
                reason=reason,
            )

    def _boot(self, broker: int) -> None:
        self.incarnation[broker] += 1
        self.sequence[broker] = 0
        self._emit(broker, "start", pid=1, version="0", truncation="leader-epoch", min_isr=self.min_isr, unclean=False)
        self.broker_epoch[broker] = self._znode("create", f"/brokers/ids/{broker}", 0, "{}")
        self._emit(broker, "registered", be=self.broker_epoch[broker])
        self.alive.add(broker)

    def _roles(self, p: Partition) -> None:
        for broker in p.replicas:
            if broker in self.alive and broker not in self.hung:
                self._role(p, broker)

    def _role(self, p: Partition, broker: int) -> None:
        log = p.logs[broker]
        common: dict[str, Any] = {
            "p": p.name,
            "le": p.leader_epoch,
            "pe": p.version,
            "ce": self.controller_epoch,
            "isr": sorted(p.isr),
            "replicas": p.replicas,
            "leo": len(log),
            "hw": p.hw[broker],
        }
        if broker == p.leader:
            p.asked = {}
            self._emit(broker, "become_leader", **common, epoch_start=len(log))
            return
        self._emit(broker, "become_follower", **common, leader=p.leader)
        agreed = 0
        for mine, theirs in zip(log, p.logs.get(p.leader, []), strict=False):
            if mine != theirs:
                break
            agreed += 1
        if agreed < len(log):
            self._emit(
                broker,
                "truncate",
                p=p.name,
                le=p.leader_epoch,
                from_leo=len(log),
                to=agreed,
                hw=p.hw[broker],
                in_isr=broker in p.isr,
                reason="diverging-epoch",
            )
            del log[agreed:]
            p.hw[broker] = min(p.hw[broker], agreed)

    # -- replication -----------------------------------------------------------------------------------------------

    def fetch(self, p: Partition, follower: int) -> None:
        """One fetch of one follower: it tells its LEO, gets all that it lacks, and the HW."""
        leader = p.leader
        mine, theirs = p.logs[follower], p.logs[leader]
        rid = f"{self.topic}x{follower}x{self.incarnation[follower]}:{self.next_rid}"
        self.next_rid += 1
        part = [p.name, len(mine), p.leader_epoch, mine[-1][0] if mine else -1]
        self._emit(follower, "fetch_sent", rid=rid, leader=leader, parts=[part])
        self._emit(leader, "fetch_received", rid=rid, follower=follower, be=self.broker_epoch[follower], parts=[part])
        p.asked[follower] = len(mine)
        self._advance(p)
        if follower not in p.isr and len(mine) >= p.hw[leader] and p.hw[leader] == len(theirs):
            self._change_isr(p, [*p.isr, follower], "expand", "caught-up", joiner=follower)
        new = theirs[len(mine) :]
        self._emit(
            follower,
            "fetch_answered",
            rid=rid,
            leader=leader,
            parts=[[p.name, 0, p.hw[leader], 70 * len(new), -1, -1]],
        )
        if new:
            base = len(mine)
            mine += new
            self._emit(follower, "append", p=p.name, le=new[-1][0], role="follower", base=base, last=len(mine) - 1)
        known = min(p.hw[leader], len(mine))
        if known > p.hw[follower]:
            p.hw[follower] = known
            self._emit(follower, "hw", p=p.name, le=p.leader_epoch, role="follower", hw=known, rid=rid)

    def _advance(self, p: Partition) -> None:
        leos = {member: p.asked.get(member, 0) for member in p.replicas if member != p.leader}
        leos[p.leader] = len(p.logs[p.leader])
        hw = min(leos[member] for member in p.isr)
        if hw <= p.hw[p.leader] or len(p.isr) < self.min_isr:
            return
        p.hw[p.leader] = hw
        self._emit(
            p.leader,
            "hw",
            p=p.name,
            le=p.leader_epoch,
            role="leader",
            hw=hw,
            isr=sorted(p.isr),
            maximal=sorted(p.isr),
            leos={str(member): leo for member, leo in leos.items()},
        )

    def _change_isr(self, p: Partition, isr: list[int], kind: str, reason: str, joiner: int | None = None) -> None:
        bes = {str(member): self.broker_epoch[member] for member in isr if member in self.alive}
        self._emit(
            p.leader,
            "isr_propose",
            p=p.name,
            le=p.leader_epoch,
            pe=p.version,
            kind=kind,
            isr=sorted(isr),
            reason=reason,
            bes=bes,
        )
        p.isr = isr
        p.version += 1
        self._state(p, None)
        self._emit(p.leader, "isr_commit", p=p.name, le=p.leader_epoch, pe=p.version, isr=sorted(isr))
        self._advance(p)

    def _append(self, p: Partition, values: list[int]) -> int:
        log = p.logs[p.leader]
        base = len(log)
        log += [(p.leader_epoch, value) for value in values]
        self._emit(p.leader, "append", p=p.name, le=p.leader_epoch, role="leader", base=base, last=len(log) - 1)
        return base

    def followers(self, p: Partition) -> list[int]:
        return [b for b in p.replicas if b != p.leader and b in self.alive and b not in self.hung]

    def settle(self, p: Partition) -> None:
        """Fetches until every running follower has everything, and its HW."""
        for _ in range(3):
            for follower in self.followers(p):
                self.fetch(p, follower)

    def up(self, p: Partition) -> bool:
        return p.leader in self.alive and p.leader not in self.hung

    # -- faults ----------------------------------------------------------------------------------------------------

    def kill(self, broker: int) -> None:
        """kill -9, then its session's end, then elections where it led."""
        self.faults += 1
        self.story.nemesis("start", "kill", self.faults, [self.name(broker)])
        self.alive.discard(broker)
        self.hung.discard(broker)
        self._tick()
        self._znode("delete", f"/brokers/ids/{broker}", None, None)
        for p in self.partitions:
            if p.leader == broker:
                self.elect(p)
            elif broker in p.isr and self.up(p):
                self._change_isr(p, [member for member in p.isr if member != broker], "shrink", "lag")

    def elect(self, p: Partition) -> None:
        able = [b for b in p.replicas if b in p.isr and b in self.alive and b not in self.hung]
        if not able:
            return
        p.leader = able[0]
        p.isr = able
        p.leader_epoch += 1
        p.version += 1
        self._state(p, "offline")
        self._roles(p)
        self.settle(p)

    def start(self, broker: int, fault: int) -> None:
        self._boot(broker)
        for p in self.partitions:
            self._emit(
                broker,
                "recovered",
                p=p.name,
                log_start=0,
                leo=len(p.logs[broker]),
                hw=min(p.hw[broker], len(p.logs[broker])),
                clean=False,
            )
            if not self.up(p):
                if broker in p.isr:
                    self.elect(p)
                continue
            self._role(p, broker)
            self.settle(p)
        self.story.nemesis("stop", "kill", fault, [self.name(broker)])

    def pause(self, broker: int) -> int:
        """A follower hangs; where it followed, the leader drops it from the ISR for lag."""
        self.faults += 1
        self.story.nemesis("start", "pause", self.faults, [self.name(broker)])
        self.hung.add(broker)
        for p in self.partitions:
            if p.leader != broker and broker in p.isr and self.up(p) and len(p.isr) > 1:
                self._change_isr(p, [member for member in p.isr if member != broker], "shrink", "lag")
        return self.faults

    def resume(self, broker: int, fault: int) -> None:
        self.hung.discard(broker)
        for p in self.partitions:
            if p.leader != broker and self.up(p):
                self._role(p, broker)
                self.settle(p)
        self.story.nemesis("stop", "pause", fault, [self.name(broker)])
