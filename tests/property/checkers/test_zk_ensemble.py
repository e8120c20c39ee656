"""Logs of ZooKeeper ensembles whose leaders are deposed again and again: what is read of them is what was committed.

The model's servers log, and are synchronised, as ZooKeeper's do (LearnerHandler.syncFollower, Learner.syncWithLeader):
by what they lack, by a cut, or, across epochs, by a snapshot, which leaves what they had logged where it is.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

import pytest

from checkers.evidence.zk_ensemble import merged
from checkers.evidence.zk_txnlog import Change, TxnLog

pytestmark = pytest.mark.guarantee("V2")

SEEDS = 500
KEPT = 3
"""So many transactions a leader sends one after the other; who lacks more is sent a snapshot."""


@dataclass(eq=False)
class Server:
    log: list[int] = field(default_factory=list)
    snapshots: list[int] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    """All that its tree has, in order."""
    epoch: int = 0
    """The last one whose leader it followed, or was."""

    def last(self) -> int:
        return self.held[-1] if self.held else 0

    def take(self, zxid: int) -> None:
        self.log.append(zxid)
        self.held.append(zxid)

    def follow(self, leader: Server, begin: int = 0) -> None:
        """begin: the epoch's, which its leader counts as its last transaction once it serves, and has none yet."""
        lacks = [zxid for zxid in leader.held if zxid > self.last()]
        if self.last() > leader.last():
            self.log = [zxid for zxid in self.log if zxid <= leader.last()]
            self.held = list(leader.held)
        elif len(lacks) <= KEPT and self.last() in (0, *leader.held):
            for zxid in lacks:
                self.take(zxid)
        else:
            self.held = list(leader.held)
            self.snapshots.append(max(self.last(), begin))


def _life(random: Random) -> tuple[list[Server], list[int]]:
    """(servers, what was committed). Each epoch is of a majority; who was away may come back within it."""
    servers = [Server() for _ in range(random.choice((3, 5)))]
    most = len(servers) // 2 + 1
    committed: list[int] = []
    epochs = random.randrange(1, 6)
    for epoch in range(1, epochs + 1):
        voters = random.sample(servers, random.randrange(most, len(servers) + 1))
        leader = max(voters, key=lambda one: (one.epoch, one.last()))
        leader.snapshots += [leader.last()] if random.random() < 0.5 else []
        for one in voters:
            if one is not leader:
                one.follow(leader)
            one.epoch = epoch
        committed = list(leader.held)
        for counter in range(random.randrange(6) + 1):
            if counter:
                for one in voters:
                    one.take(epoch << 32 | counter)
                committed.append(epoch << 32 | counter)
            away = [one for one in servers if one not in voters]
            if away and random.random() < 0.2:
                voters.append(random.choice(away))
                voters[-1].follow(leader, epoch << 32)
                voters[-1].epoch = epoch
        if epoch < epochs:
            # Its last words reach too few, or nobody.
            heard = random.sample([one for one in voters if one is not leader], random.randrange(0, most - 1))
            for _ in range(random.randrange(0, 3)):
                zxid = leader.last() + 1 if leader.last() >> 32 == epoch else epoch << 32 | 1
                for one in (leader, *heard):
                    one.take(zxid)
    return servers, committed


def _read(server: Server) -> TxnLog:
    changes = [Change(zxid, 0, 0, 7, "create", f"/{zxid:x}", 0, "") for zxid in server.log]
    return TxnLog(changes, list(server.log), [], sorted(server.snapshots), server.epoch)


def test_logs_of_an_ensemble_have_what_was_committed_and_nothing_else() -> None:
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        random = Random(seed)
        servers, committed = _life(random)
        gone = random.sample(servers, random.choice((0, 0, 1)))
        logs = {f"zk{nth}": _read(one) for nth, one in enumerate(servers) if one not in gone}
        found, problems = merged(logs)
        seen["unknown" if problems else "told"] += 1
        seen["never committed"] += bool({zxid for one in servers for zxid in one.log} - set(committed))
        seen["whole and unknown"] += bool(problems and not gone)
        if not problems:
            read = [change.zxid for _, change in found]
            # The last ones may be on servers alone of which no log is there.
            assert read == committed[: len(read)], seed
            assert gone or len(read) == len(committed), seed
    assert seen["told"] > SEEDS // 2
    assert seen["never committed"] > SEEDS // 10
    assert seen["whole and unknown"] < SEEDS // 10, seen
