"""A cluster that keeps every rule, told three ways: what clients saw, brokers logged, ZooKeeper and disks hold.

What it writes must be judged valid; tests then change one line and require that exactly that is found.
"""

from __future__ import annotations

from random import Random
from typing import Any

from tests.support.model_brokers import ModelBrokers, Partition

DRAIN_RECORDS = 20
"""Records per poll of the drain: few, so that one drain is several polls."""


class ModelCluster(ModelBrokers):
    """The brokers, and the clients that send to them and read from them."""

    def __init__(
        self, rng: Random, topic: str = "hw", *, partitions: int = 1, first_broker: int = 1, min_isr: int = 2
    ) -> None:
        super().__init__(rng, topic, partitions=partitions, first_broker=first_broker, min_isr=min_isr)
        self.next_value = 1
        self.next_process = 0
        self.processes: dict[int, int] = {}

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

    def _sentinel(self, p: Partition) -> bool:
        before = len(self.story.lines)
        self.send(p.number, sentinel=True, phase="final")
        return self.story.lines[-1]["type"] == "ok" and len(self.story.lines) > before

    def _drain(
        self, p: Partition, reader: str, broker: int, log: list[tuple[int, int]], *, current: bool = False
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
