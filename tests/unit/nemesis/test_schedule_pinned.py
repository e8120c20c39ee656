"""A seed that was given in a report still means the same faults: schedules and draws are pinned by digest."""

from __future__ import annotations

import hashlib
import json
from random import Random

import pytest

from nemesis import schedule
from nemesis.catalogue import load_catalogue
from nemesis.kinds import Timing
from nemesis.schedule import Mix
from tests.support.fake_cluster import FakeView

BY_DEFAULT = (
    "kill",
    "stop",
    "pause",
    "isolate",
    "halves",
    "majority-ring",
    "one-way",
    "cut-zookeeper",
    "clock-step",
    "clock-drift",
    "clock-strobe",
)
FILES = ("bitflip", "truncate-file", "remove-file")
EVERY = (*BY_DEFAULT, *FILES)
ROLES = ("one", "leader", "controller", "minority")
MIXED = ("cut-zookeeper", "clock-drift", "one-way", "remove-file", "stop", "clock-step", "bitflip", "pause")
SLOW = Timing(6.0, 2.0)
SEEDS = (1, 2, 77)


def mix(
    kinds: tuple[str, ...],
    targets: tuple[str, ...],
    interval_s: tuple[float, float],
    duration_s: tuple[float, float],
    overlap: int,
    time_limit_s: float,
    timing: Timing,
) -> Mix:
    return Mix(load_catalogue().named(kinds), targets, interval_s, duration_s, overlap, time_limit_s, 8.0, timing)


PINNED = {
    "as a run file has them by default": (
        mix(BY_DEFAULT, ROLES, (2.0, 4.0), (4.0, 7.0), 1, 60.0, SLOW),
        [(5, "6b1c9bf23ee314c6"), (5, "443995759b581eed"), (5, "61583f5359796b5a")],
    ),
    "every kind, for ten minutes": (
        mix(EVERY, ROLES, (2.0, 4.0), (4.0, 7.0), 1, 600.0, Timing(2.5, 3.0)),
        [(68, "fc667397086a7a66"), (67, "49d78c82f9fdb7f6"), (68, "535d69d8c5698dba")],
    ),
    "three at once, with timing that is not known": (
        mix(EVERY, ("leader", "n1"), (1.0, 2.0), (2.0, 5.0), 3, 300.0, Timing(None, None)),
        [(171, "657ea66159dd505a"), (173, "d5f1bff2a37c7ce7"), (173, "b8f862da1040d904")],
    ),
    "targets without roles": (
        mix(BY_DEFAULT, ("one", "all"), (0.0, 4.0), (4.0, 7.0), 2, 200.0, SLOW),
        [(42, "f229b2c983699154"), (42, "fd0bf4129cc68aa7"), (41, "9cf964c0f875506c")],
    ),
    "the same kinds in reverse": (
        mix(tuple(reversed(EVERY)), ROLES, (2.0, 4.0), (4.0, 7.0), 1, 300.0, SLOW),
        [(31, "7ac96c4c9bef497c"), (30, "3289b8a420cbb324"), (31, "1887f9731e0a7a5b")],
    ),
    "some kinds in an order of their own": (
        mix(MIXED, ("controller",), (1.0, 2.0), (2.0, 3.0), 1, 200.0, Timing(6.0, None)),
        [(31, "9ea42d00a12ee561"), (30, "5a56a5588267d8ae"), (31, "821e9c04cf97df7c")],
    ),
}

DRAWN = {
    1: {
        "kill": "4e3352a988aa8a66",
        "stop": "dc6bbd851f80a4ee",
        "pause": "2e57215ab3bb5709",
        "isolate": "2dd0c482496f0203",
        "halves": "cac761177e42443e",
        "majority-ring": "4fd2b6f2296e8108",
        "one-way": "ba827f46f1689421",
        "cut-zookeeper": "36cd8595b39c8e6c",
        "clock-step": "c6542b73659bd6ac",
        "clock-drift": "396f24e6633f22b4",
        "clock-strobe": "fa1632be47697284",
        "bitflip": "09e711eeb209386b",
        "truncate-file": "c4b852c763fa56b6",
        "remove-file": "e0eb6bb1cbc16dab",
    },
    2: {
        "kill": "7388635cb868e572",
        "stop": "2b61540fc4841444",
        "pause": "afddf5196fe6b7f1",
        "isolate": "f12edb44a4004f91",
        "halves": "3ba48299d6bcc15d",
        "majority-ring": "1813085b4b641212",
        "one-way": "b1c028588e1cf926",
        "cut-zookeeper": "57da041436608ae6",
        "clock-step": "ce535feb5d0fa67c",
        "clock-drift": "4280a4070707e4bd",
        "clock-strobe": "25b31c82e0053ca1",
        "bitflip": "f5b20e2d5415b35a",
        "truncate-file": "a46b8d333c02c289",
        "remove-file": "82f061468102f01d",
    },
}


def digest(rows: list[list[object]]) -> str:
    return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()[:16]


@pytest.mark.parametrize("name", PINNED)
def test_slots_of_a_mix_and_a_seed_are_what_they_always_were(name: str) -> None:
    asked, expected = PINNED[name]
    found = []
    for seed in SEEDS:
        slots = schedule.slots(asked, seed)
        rows: list[list[object]] = [
            [s.number, s.lane, s.kind, s.target, sorted(s.wanted.items()), s.start_s, s.duration_s] for s in slots
        ]
        found.append((len(rows), digest(rows)))
    assert found == expected


@pytest.mark.parametrize("seed", DRAWN)
def test_injections_drawn_from_a_seed_are_what_they_always_were(seed: int) -> None:
    faults = load_catalogue().make()
    found = {}
    for kind in EVERY:
        targets = ("leader", "one") if kind in FILES else ("leader", "one", "n2")
        drawn = [
            faults[kind].draw(Random(f"{seed}/fault/{number}"), FakeView(), target, {})
            for number in range(20)
            for target in targets
        ]
        found[kind] = digest([[one.fault, list(one.targets), one.params] for one in drawn])
    assert found == DRAWN[seed]
