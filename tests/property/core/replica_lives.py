"""What may happen to the replicas of one partition, and lives that are made of it; a step is (what, broker)."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.property.core.replica_disks import REPLICAS
from tests.property.core.replica_world import World

WHAT = ["write", "write", "sync", "lag", "catch-up", "kill", "power", "start", "report", "suspect", "failover"]
WHAT_OF_BACKUPS = [*WHAT, "backup", "backup", "restore"]
WHAT_OF_BOUNCES = [*WHAT, "bounce", "bounce", "failover"]
WHAT_OF_MINIMA = [*WHAT, "minimum", "hear", "hear", "controller-hears"]
WHAT_OF_DELETIONS = [*WHAT, "delete", "delete", "power", "power", "start", "report"]
WHAT_OF_UNCLEAN = [*WHAT, "write", "wrongly-suspect", "wrongly-suspect", "reachable", "kill", "power"]
WHAT_OF_DELAYS = [*WHAT, "ask", "ask", "answer", "answer"]
WHAT_OF_DEPOSED = ["report", "late-fetch", "power", "start", "expire", "ask", "answer"]
Steps = tuple[tuple[str, int], ...]
OUTAGE: Steps = (("power", 1), ("power", 2), ("power", 3))
TURNS: tuple[Steps, ...] = (
    *(
        (("slow", 1), ("slow", 2), ("slow", 3), ("write", 0), ("prefer", b), ("write", 0), ("kill", b))
        for b in REPLICAS
    ),
    *((("catch-up", b), ("sync", 1), ("sync", 2), ("sync", 3)) for b in REPLICAS),
    *((("catch-up", b), ("sync", 1), ("sync", 2), ("sync", 3), *OUTAGE) for b in REPLICAS),
    OUTAGE,
    *(((what, b),) for what in ("write", "kill", "start", "report") for b in REPLICAS),
)
"""What leaders who take turns do; steps that mean little apart come together."""
WHAT_OF_ALL = [
    *WHAT_OF_BACKUPS,
    "bounce",
    "minimum",
    "hear",
    "controller-hears",
    "ask",
    "answer",
    "expire",
    "late-fetch",
    "delete",
    "slow",
    "prefer",
]


def lives(what: list[str], shortest: int = 12) -> st.SearchStrategy[list[tuple[str, int]]]:
    return st.lists(st.tuples(st.sampled_from(what), st.sampled_from(REPLICAS)), min_size=shortest, max_size=40)


def live(world: World, life: list[tuple[str, int]]) -> None:
    for what, broker in life:
        step(world, what, broker)
    for broker in REPLICAS:
        world.start(broker)
        world.reachable(broker)
    for broker in REPLICAS:
        world.report(broker)
    assert world.led(), "everybody is back and has spoken, and nobody leads"


def step(world: World, what: str, broker: int) -> None:
    match what:
        case "write":
            world.write()
        case "delete":
            world.delete()
        case "sync":
            world.disks.synced[broker] = len(world.disks.logs[broker])
        case "lag":
            world.lag(broker)
        case "slow":
            world.slow(broker)
        case "prefer":
            world.prefer(broker)
        case "catch-up":
            world.catch_up(broker)
        case "kill" | "power":
            world.stop(broker, what == "power")
        case "start":
            world.start(broker)
        case "report":
            world.report(broker)
        case "ask":
            world.ask(broker)
        case "answer":
            world.answer(broker)
        case "expire":
            world.expire(broker)
        case "late-fetch":
            world.late_fetch(broker)
        case "suspect":
            world.suspect(broker)
        case "wrongly-suspect":
            world.suspect_wrongly(broker)
        case "reachable":
            world.reachable(broker)
        case "failover":
            world.failover()
        case "backup":
            world.backup(broker)
        case "restore":
            world.restore(broker)
        case "bounce":
            world.bounce(broker)
        case "minimum":
            world.min_isr = broker
        case "hear":
            world.heard[broker] = world.min_isr
        case "controller-hears":
            world.controller_hears()
