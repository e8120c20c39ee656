"""Slow, plain twins of the checkers of administration, and small histories of administrators for both to judge.

Each twin takes the operations of one history and says whether it finds anything. Orders are tried one by one, so the
histories have a few operations each. `history_of` tells what a topic goes through that keeps its promises, and now and
then an answer that it does not give.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, combinations, permutations
from random import Random

from tests.support.admin_stories import UNSET, Administrators
from tests.support.histories import Story
from tests.support.twins import Op

FIRST = 2
"""How many partitions each topic begins with."""
NODES = ("a1", "a2", "a3")
Ends = Sequence[tuple[str, int]]
"""(node, ns) of each end of a process."""


def _of(ops: Sequence[Op], f: str, *outcomes: str) -> list[Op]:
    return [op for op in ops if op.f == f and op.outcome in (outcomes or ("ok",))]


def _over(op: Op) -> int:
    assert op.done is not None
    return op.done


def _in_drain(op: Op) -> bool:
    return str(op.request["phase"]).startswith("drain")


def config_not_linearizable(ops: Sequence[Op], one_server: bool) -> bool:
    """No order of the changes and descriptions of some setting explains each description."""
    of_configs: dict[str, list[Op]] = {}
    for op in (op for op in ops if op.f in ("alter_config", "describe_config")):
        of_configs.setdefault(op.request["config"], []).append(op)
    return not all(_config_explained(mine, one_server) for mine in of_configs.values())


def _config_explained(ops: Sequence[Op], one_server: bool) -> bool:
    maybe = _of(ops, "alter_config", "info")
    certain = [*_of(ops, "alter_config"), *_of(ops, "describe_config")]

    def before(a: Op, b: Op) -> bool:
        """Whether a has to stand before b."""
        if a in maybe:
            return False
        stale = b.f == "describe_config" and not one_server and not _in_drain(b)
        return not stale and _over(a) < b.invoked

    def explains(order: Sequence[Op]) -> bool:
        setting = UNSET
        for op in order:
            if op.f == "alter_config":
                setting = op.request["setting"]
            elif op.response["setting"] != setting:
                return False
        return True

    return _some_order(certain, maybe, before, explains)


def _some_order(
    certain: Sequence[Op],
    maybe: Sequence[Op],
    before: Callable[[Op, Op], bool],
    explains: Callable[[Sequence[Op]], bool],
) -> bool:
    taking_effect = chain.from_iterable(combinations(maybe, count) for count in range(len(maybe) + 1))
    for some in taking_effect:
        for order in permutations([*certain, *some]):
            in_time = not any(before(later, earlier) for at, later in enumerate(order) for earlier in order[:at])
            if in_time and explains(order):
                return True
    return False


def life_of(op: Op, ends: Ends) -> str | None:
    """Which process answered; None where that is not known."""
    asked = sum(node == op.request["node"] and at <= op.invoked for node, at in ends)
    answered = sum(node == op.request["node"] and at <= _over(op) for node, at in ends)
    return f"{op.request['node']}/{op.request['phase']}/{asked}" if asked == answered else None


def _back(ops: Sequence[Op], read: Op, ends: Ends) -> bool:
    told = [
        op.response["count"] if op.f == "count_partitions" else op.request["count"]
        for op in [*_of(ops, "count_partitions"), *_of(ops, "create_partitions")]
        if life_of(op, ends) is not None and life_of(op, ends) == life_of(read, ends) and _over(op) < read.invoked
    ]
    return any(count > read.response["count"] for count in told)


def partitions_went_back(ops: Sequence[Op], ends: Ends) -> bool:
    """A process shows less than it told, or a broker in the end less than was acknowledged."""
    reads = _of(ops, "count_partitions")
    if any(_back(ops, read, ends) for read in reads):
        return True
    for read in (read for read in reads if _in_drain(read)):
        same = [other for other in reads if all(other.request[k] == read.request[k] for k in ("phase", "node"))]
        if read is max(same, key=lambda op: (_over(op), op.index)):
            acked = [op for op in _of(ops, "create_partitions") if _over(op) < read.invoked]
            if any(op.request["count"] > read.response["count"] for op in acked):
                return True
    return False


def partitions_not_linearizable(ops: Sequence[Op], ends: Ends) -> bool:
    """No order of the growths and counts explains each count, each growth and each refusal."""
    every = _of(ops, "count_partitions")
    reads = [read for read in every if not _back(ops, read, ends)]
    first = max((op.response["count"] for op in every if op.request["phase"] == "setup"), default=0)
    refused = [op for op in _of(ops, "create_partitions", "fail") if op.response["error"] == "INVALID_PARTITIONS"]
    maybe = _of(ops, "create_partitions", "info")

    def before(a: Op, b: Op) -> bool:
        if a in maybe:
            return False
        if b.f != "count_partitions":
            return _over(a) < b.invoked
        mine = a not in refused and life_of(a, ends) is not None and life_of(a, ends) == life_of(b, ends)
        return mine and _over(a) < b.invoked

    def explains(order: Sequence[Op]) -> bool:
        old, new = first - 1, first
        for op in order:
            if op.f == "count_partitions":
                right = old < op.response["count"] <= new
            elif op in refused:
                right = op.request["count"] <= new
            else:
                right = op.request["count"] > new
                old, new = new, op.request["count"]
            if not right:
                return False
        return True

    return not _some_order([*reads, *refused, *_of(ops, "create_partitions")], maybe, before, explains)


def history_of(rng: Random, topic: str) -> Story:
    """What settings of a topic go through, or its partitions: up to eight operations, some beside each other."""
    story = Story(topic)
    admin = Administrators(story)
    admin.count(FIRST, phase="setup")
    settings: dict[str, list[int]] = {"retention.ms": [UNSET], "segment.bytes": [UNSET]}
    counts, known, at = [FIRST], dict.fromkeys(NODES, 0), story.now + 1
    kinds = rng.choice((("alter", "describe", "describe"), ("grow", "count", "count")))
    for _ in range(rng.randint(4, 6)):
        at += rng.randint(0, 6)
        begun, over = at - rng.randint(0, 2), at + rng.randint(1, 3)
        when = {"node": rng.choice(NODES), "invoked": max(2, begun), "completed": over}
        wrong, config = rng.random() < 0.25, rng.choice(("retention.ms",) * 4 + ("segment.bytes",))
        lost = {"outcome": "info", "error": "timeout"} if rng.random() < 0.25 else {}
        match rng.choice(kinds):
            case "alter":
                value = UNSET if rng.random() < 0.2 else len(settings[config])
                if not lost or rng.random() < 0.5:
                    settings[config].append(value)
                admin.alter(value, config, **when, **lost)
            case "describe":
                *old, shown = settings[config]
                shown = rng.choice([*old, *old, 3]) if wrong else shown
                admin.describe(shown, config, **when, phase=rng.choice(("main", "main", "drain-a1")))
            case "grow":
                value = counts[-1] + (rng.choice((-1, 0, 0)) if wrong else rng.choice((0, 1, 2)))
                if value <= counts[-1] and not wrong:
                    lost = {"outcome": "fail", "error": rng.choice(("INVALID_PARTITIONS", "NOT_CONTROLLER"))}
                elif not lost or rng.random() < 0.5:
                    counts.append(max(value, counts[-1]))
                    known[str(when["node"])] = len(counts) - 1
                admin.grow(value, **when, **lost)
            case _:
                node = str(when["node"])
                known[node] = 0 if wrong else rng.randint(known[node], len(counts) - 1)
                admin.count(counts[known[node]] + (wrong and rng.random() < 0.5), **when)
    if rng.random() < 0.3:
        story.nemesis("start", "kill", 1, [rng.choice(NODES)], at=rng.randint(3, at))
    if rng.random() < 0.5:
        admin.count(counts[-1 if rng.random() < 0.8 else 0], node=rng.choice(NODES), phase="drain-a1", invoked=at + 9)
    return story


def ends_of(story: Story) -> Ends:
    """Of a history's nemesis lines."""
    lines = [line for line in story.lines if line["kind"] == "nemesis"]
    return [(node, line["time_ns"]) for line in lines for node in line["targets"]]
