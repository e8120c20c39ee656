"""A cluster that keeps every rule, told three ways: what clients saw, brokers logged, ZooKeeper and disks hold.

One topic, three brokers, pull replication in single steps. Times are milliseconds of one clock. What it writes must be
judged valid; tests then change one line and require that exactly that is found.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.support.histories import Story

DRAIN_RECORDS = 20
"""Records per poll of the drain: few, so that one drain is several polls."""


@dataclass
class _Partition:
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


class ModelCluster:
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
        self.next_value = 1
        self.next_process = 0
        self.processes: dict[int, int] = {}
        self.faults = 0
        self._znode("create", "/controller_epoch", 0, str(self.controller_epoch))
        self.partitions: list[_Partition] = []
        for broker in self.brokers:
            self._boot(broker)
        self._emit(self.brokers[2], "controller", ce=self.controller_epoch, what="elected")
        for number in range(partitions):
            turn = number % 3
            replicas = self.brokers[turn:] + self.brokers[:turn]
            p = _Partition(number, f"{topic}-{number}", replicas, replicas[0], list(replicas))
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

    def _state(self, p: _Partition, reason: str | None) -> None:
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

    def _roles(self, p: _Partition) -> None:
        for broker in p.replicas:
            if broker in self.alive and broker not in self.hung:
                self._role(p, broker)

    def _role(self, p: _Partition, broker: int) -> None:
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

    def fetch(self, p: _Partition, follower: int) -> None:
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

    def _advance(self, p: _Partition) -> None:
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

    def _change_isr(self, p: _Partition, isr: list[int], kind: str, reason: str, joiner: int | None = None) -> None:
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

    def followers(self, p: _Partition) -> list[int]:
        return [b for b in p.replicas if b != p.leader and b in self.alive and b not in self.hung]

    def settle(self, p: _Partition) -> None:
        """Fetches until every running follower has everything, and its HW."""
        for _ in range(3):
            for follower in self.followers(p):
                self.fetch(p, follower)

    def up(self, p: _Partition) -> bool:
        return p.leader in self.alive and p.leader not in self.hung

    # -- clients ---------------------------------------------------------------------------------------------------

    def send(self, number: int = 0, *, records: int = 1, process: int | None = None, **fields: Any) -> None:
        """acks=all: ok when committed, info when it is not (or its answer is lost), fail below min ISR."""
        p = self.partitions[number]
        values = list(range(self.next_value, self.next_value + records))
        self.next_value += records
        who = self._process(self.rng.randrange(3)) if process is None else process
        node = self.name(p.leader)
        op = self.story.invoke(
            "send",
            process=who,
            partition=number,
            node=node,
            values=values,
            acks=-1,
            sentinel=fields.pop("sentinel", False),
            **fields,
        )
        if not self.up(p):
            self._retire(who)
            self.story.complete(op, "info", error="timeout")
            return
        if len(p.isr) < self.min_isr:
            self.story.complete(op, "fail", error="NOT_ENOUGH_REPLICAS")
            return
        base = self._append(p, values)
        self.settle(p)
        last = base + records - 1
        if p.hw[p.leader] <= last or self.rng.random() < 0.05:
            self._retire(who)
            self.story.complete(op, "info", error="timeout")
            return
        self._emit(
            p.leader,
            "ack",
            p=p.name,
            le=p.leader_epoch,
            base=base,
            last=last,
            acks=-1,
            hw=p.hw[p.leader],
            isr=sorted(p.isr),
            min_isr=self.min_isr,
        )
        self.story.complete(op, base_offset=base)

    def _append(self, p: _Partition, values: list[int]) -> int:
        log = p.logs[p.leader]
        base = len(log)
        log += [(p.leader_epoch, value) for value in values]
        self._emit(p.leader, "append", p=p.name, le=p.leader_epoch, role="leader", base=base, last=len(log) - 1)
        return base

    def orphan(self, number: int = 0) -> None:
        """A send that only the leader's log holds when its client gives up."""
        p = self.partitions[number]
        if not self.up(p) or len(p.isr) < self.min_isr:
            return
        op = self.story.invoke(
            "send",
            process=self._process(None),
            partition=number,
            node=self.name(p.leader),
            values=[self.next_value],
            acks=-1,
            sentinel=False,
        )
        self._append(p, [self.next_value])
        self.next_value += 1
        self.story.complete(op, "info", error="timeout")

    def _process(self, thread: int | None) -> int:
        """The process of a thread, which lives until its first info; None: one that is used once."""
        if thread is None or thread not in self.processes:
            self.next_process += 1
            if thread is None:
                return self.next_process
            self.processes[thread] = self.next_process
        return self.processes[thread]

    def _retire(self, process: int) -> None:
        self.processes = {thread: who for thread, who in self.processes.items() if who != process}

    def poll(self, position: int, number: int = 0, *, limit: int = 10, **fields: Any) -> int:
        """Read up to `limit` committed records; returns the next position."""
        p = self.partitions[number]
        if not self.up(p):
            self.story.poll(position, outcome="fail", partition=number, node=self.name(p.leader), **fields)
            return position
        end = min(p.hw[p.leader], position + limit)
        shown = [(offset, p.logs[p.leader][offset][1]) for offset in range(position, end)]
        invoked = self._tick()
        if shown:
            self._emit(p.leader, "visible", p=p.name, le=p.leader_epoch, kind="fetch", upto=end, hw=p.hw[p.leader])
        self.story.poll(
            position,
            shown,
            hw=p.hw[p.leader],
            epoch=p.leader_epoch,
            partition=number,
            node=self.name(p.leader),
            invoked=invoked,
            completed=self._tick(),
            **fields,
        )
        return max(position, end)

    def ask_end(self, number: int = 0) -> None:
        """ListOffsets(latest) of whom Metadata names; told as every leader here can: its watermark never lags."""
        p = self.partitions[number]
        asked: dict[str, Any] = {"partition": number, "node": self.name(p.leader), "process": 60_000}
        if not self.up(p):
            op = self.story.invoke("list_offsets", timestamp=-1, isolation=0, leader_epoch=p.leader_epoch, **asked)
            self.story.complete(op, "fail", error="connection-refused")
            return
        end = p.hw[p.leader]
        self._emit(p.leader, "visible", p=p.name, le=p.leader_epoch, kind="list_offsets", upto=end, hw=end)
        self.story.list_offsets(end, epoch=p.leader_epoch, **asked)

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

    def elect(self, p: _Partition) -> None:
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

    # -- the end ---------------------------------------------------------------------------------------------------

    def finish(self, *, current: bool = False) -> None:
        """A sentinel per partition, and a drain by both readers from every replica as leader.

        current: and one from whoever leads, before the others, as the harness makes it.
        """
        for p in self.partitions:
            self.settle(p)
            while not self._sentinel(p):
                pass
        # One more line per broker: every answer so far is older than the copied logs.
        for broker in sorted(self.alive):
            self._emit(broker, "flush", p=self.partitions[0].name, upto=0)
        for p in self.partitions if current else ():
            for reader in ("wire", "confluent"):
                self._drain(p, reader, p.leader, p.logs[p.leader], current=True)
        for p in self.partitions:
            log = p.logs[p.leader]
            for reader in ("wire", "confluent"):
                for broker in p.replicas:
                    self._drain(p, reader, broker, log)
        self.story.harness("evidence", node="n1", phase="final")

    def _sentinel(self, p: _Partition) -> bool:
        before = len(self.story.lines)
        self.send(p.number, sentinel=True, phase="final")
        return self.story.lines[-1]["type"] == "ok" and len(self.story.lines) > before

    def _drain(
        self, p: _Partition, reader: str, broker: int, log: list[tuple[int, int]], *, current: bool = False
    ) -> None:
        phase = "drain-current" if current else f"drain-{broker}"
        position = 0
        while position < len(log):
            chunk = log[position : position + DRAIN_RECORDS]
            shown = [(position + nth, value) for nth, (_, value) in enumerate(chunk)]
            self.story.poll(
                position,
                shown,
                hw=len(log),
                epoch=p.leader_epoch + (0 if current else 1 + p.replicas.index(broker)),
                partition=p.number,
                node=self.name(broker),
                reader=reader,
                consumer=f"{phase}-{p.number}-{reader}" if current else f"drain-{p.number}-{reader}-{broker}",
                phase=phase,
                process=(200_000 if current else 100_000) + 10 * p.number + broker,
            )
            position += len(chunk)
        self.story.harness(
            "drain-complete",
            phase=phase,
            topic=self.topic,
            partition=p.number,
            reader=reader,
            leader=self.name(broker),
            start=0,
            end=len(log),
        )


def random_life(
    rng: Random, topic: str, *, steps: int = 40, first_broker: int = 1, partitions: int = 1, current: bool = False
) -> ModelCluster:
    """Sends, polls, lost answers, kills of the leader, pauses of followers, in random order; then the end."""
    model = ModelCluster(rng, topic, partitions=partitions, first_broker=first_broker)
    positions = {(consumer, p.number): 0 for consumer in range(2) for p in model.partitions}
    down: tuple[str, int, int] | None = None
    for p in model.partitions:
        model.send(p.number)
    for step in range(steps):
        number = rng.randrange(partitions)
        if step % 6 == 5:
            model.ask_end(number)
        p = model.partitions[number]
        draw = rng.random()
        if draw < 0.5:
            model.send(number, records=rng.choice((1, 1, 1, 3)))
        elif draw < 0.8:
            consumer = rng.randrange(2)
            at = positions[consumer, number]
            positions[consumer, number] = model.poll(at, number, consumer=f"c{consumer}", process=50_000 + consumer)
        elif draw < 0.85:
            model.orphan(number)
        elif down is None and draw < 0.93:
            model.kill(p.leader if p.leader in model.alive else next(iter(model.alive)))
            gone = next(b for b in model.brokers if b not in model.alive)
            down = ("kill", gone, model.faults)
        elif down is None:
            followers = model.followers(p)
            if followers:
                follower = rng.choice(followers)
                if all(follower != other.leader for other in model.partitions):
                    down = ("pause", follower, model.pause(follower))
        elif down is not None:
            kind, broker, fault = down
            (model.start if kind == "kill" else model.resume)(broker, fault)
            down = None
    if down is not None:
        kind, broker, fault = down
        (model.start if kind == "kill" else model.resume)(broker, fault)
    for p in model.partitions:
        model.poll(0, p.number, process=50_002, consumer="c2")
        model.ask_end(p.number)
    model.finish(current=current)
    return model
