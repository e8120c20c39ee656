"""Faults of the power: a node's processes are gone, and of its disk all that was not synced.

The broker's data folder is a disk of its own (`harness.nodes.disks`), which the system makes where the run file names
such a fault. At the cut the brokers of all targets stand still, so that it is one moment; then their disks end, then
the processes. The disk is back, as it was, before the broker is started again at the end. Two kinds, of two families:
under group commit nothing acknowledged may be lost, whichever nodes lose power, and all is judged; where records are
acknowledged before they are synced (Kafka's way) a node that lost power counts as one whose files were damaged
(`nemesis.faults.files`). Must not know which settings a broker has.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from random import Random

from harness.nodes import disks
from harness.plan.fault_kinds import CUTS_POWER, STOPS_PROCESS
from nemesis.base import NOTHING_WANTED, ClusterView, Family, Injection, Observation, Unavailable
from nemesis.faults.process import Kill, Pause
from nemesis.kinds import FaultKind, Opening, Turn
from nemesis.targets import choose

NAME = "power"
SEEN_BY = "the pid is gone, and the disk is another mount; how many bytes of segments were there before and after"
SYNCED = FaultKind(
    "power-failure",
    NAME,
    frozenset({STOPS_PROCESS, CUTS_POWER}),
    at_random=False,
    does="all targets lose power at one moment: their processes, and what was not synced; started again at the end. "
    "Needs `flush.policy` = `group-commit`",
    seen_by=SEEN_BY,
    opening=Opening(Turn.LEADER_KILLED, "leader", place=1),
)


class PowerFailure:
    """One kind of power failure."""

    def __init__(self, kind: FaultKind) -> None:
        self.kind = kind
        self._kill = Kill()
        self._pause = Pause()

    def probe(self, view: ClusterView) -> str | None:
        return next((said for said in map(disks.missing, view.broker_nodes) if said is not None), None)

    def draw(
        self, rng: Random, view: ClusterView, target: str, wanted: Mapping[str, object] = NOTHING_WANTED
    ) -> Injection:
        names = choose(target, rng, view)
        brokers = {node.name for node in view.broker_nodes}
        if not brokers.issuperset(names):
            raise Unavailable(f"{', '.join(names)}: only brokers have a disk that can lose power")
        return Injection(self.kind.name, names, dict(wanted))

    def claims(self, injection: Injection) -> frozenset[str]:
        # Evidence, clocks and damage all read or change what lies on the disk.
        names = injection.targets
        return frozenset({"files", *(f"{what}:{name}" for name in names for what in ("process", "clock"))})

    def start(self, view: ClusterView, injection: Injection) -> Observation:
        """Cut the power of every target. Seen only if each broker ran before, and each disk was replaced."""
        places = {name: (view.node(name), view.data_folder(name)) for name in injection.targets}
        for name, (node, folder) in places.items():
            if not disks.attached(node, folder):
                return Observation(False, f"{name}: its data is on no disk of its own")
        running = [name for name in injection.targets if view.node(name).pid(view.daemon(name)) is not None]
        still = Injection(injection.fault, tuple(running), injection.params)
        if running:
            for name in running:
                view.expect_down(name)
            stopped = self._pause.start(view, still)
            if not stopped.seen:
                for name in running:
                    view.node(name).signal(view.daemon(name), signal.SIGCONT)
                return stopped
        before = {name: disks.log_bytes(*place) for name, place in places.items()}
        for place in places.values():
            disks.cut(*place)
        gone = self._kill.start(view, injection)
        texts = [gone.text]
        for name, place in places.items():
            disks.restore(*place)
            texts.append(f"{name}: segments of {before[name]:,} bytes, after the cut of {disks.log_bytes(*place):,}")
        return Observation(gone.seen, "; ".join(texts))

    def stop(self, view: ClusterView, injection: Injection) -> Observation:
        """Start every target again, on what its disk held."""
        return self._kill.stop(view, injection)


FAMILY = Family(NAME, lambda: (PowerFailure(SYNCED),))
