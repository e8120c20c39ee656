"""Slow, plain twins of the checkers of groups: loops over operations, nothing shared with the checkers.

Each takes the operations of one history and returns the set of what it finds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.support.static_twins import static_member
from tests.support.twins import Op

_NEVER = 2**62


def _of(ops: list[Op], f: str, *outcomes: str) -> list[Op]:
    return [op for op in ops if op.f == f and op.outcome in (outcomes or ("ok",))]


def _group(op: Op) -> Any:
    return op.request["group"]


def _node(op: Op) -> Any:
    return op.request["node"]


def _written(op: Op) -> dict[str, int]:
    return {one["p"]: one["offset"] for one in op.request["offsets"]}


def _read(op: Op) -> dict[str, int]:
    return {one["p"]: one["offset"] for one in op.response["offsets"]}


def overlapping_owners(ops: list[Op]) -> set[Any]:
    given = [
        (_group(op), op.request["generation"], p, op.request.get("instance") or op.request["member"])
        for op in _of(ops, "sync")
        for p in op.response["partitions"]
    ]
    named = [
        (_group(op), op.response["member"])
        for op in _of(ops, "join", "ok", "fail")
        if not op.request["member"] and op.response.get("member")
    ]
    overlaps: set[Any] = {one for one in named if named.count(one) > 1}
    return overlaps | {
        (g, n, p) for g, n, p, one in given for h, m, q, other in given if (g, n, p) == (h, m, q) and one != other
    }


def _must_know(ops: list[Op], fact: Op, reader: Op) -> bool:
    """Whether the node that answered reader must have known fact, which came out ok."""
    assert fact.done is not None
    if _group(fact) != _group(reader):
        return False
    if _node(fact) == _node(reader) and fact.done < reader.invoked:
        return True
    for sync in _of(ops, "sync"):
        if _group(sync) == _group(reader) and _node(sync) == _node(reader) and (sync.done or 0) < reader.invoked:
            generation = sync.request["generation"]
            same = [op for op in ops if op.f == "sync" and _group(op) == _group(sync)]
            if fact.done < min(op.invoked for op in same if op.request["generation"] == generation):
                return True
    return any(
        _group(commit) == _group(reader)
        and _node(commit) == _node(reader)
        and commit.done is not None
        and commit.done < reader.invoked
        and fact.done < commit.invoked
        for commit in _of(ops, "commit_offsets")
    )


def _perhaps_twice(commit: Op) -> bool:
    """Of a real client, which may have sent it once more meanwhile."""
    return _node(commit) is None and (commit.done or 0) - commit.invoked >= 50_000_000


def _over(ops: list[Op], commit: Op) -> int:
    """Until when it can have taken effect at the latest."""
    if commit.outcome == "ok" and not _perhaps_twice(commit):
        return commit.done or 0
    fences = [sync.done or 0 for sync in _of(ops, "sync") if _fences(ops, sync, commit)]
    return max(min(fences), commit.done or 0 if commit.outcome == "ok" else 0) if fences else _NEVER


def _wrong_fetches(ops: list[Op], *, drained: bool) -> set[Any]:
    found = set()
    commits = _of(ops, "commit_offsets", "ok", "info")
    for op in _of(ops, "fetch_offsets"):
        if op.request["phase"].startswith("drain") != drained:
            continue
        for p, value in _read(op).items():
            mine = [c for c in commits if _group(c) == _group(op) and p in _written(c)]
            same = [c for c in mine if _written(c)[p] == value and c.invoked < (op.done or 0)]
            ends = [_over(ops, c) for c in same]
            if value >= 0 and not same:
                found.add((op.index, p))
            for c in mine:
                known = c.outcome == "ok" and ((c.done or 0) < op.invoked if drained else _must_know(ops, c, op))
                if known and all(end < c.invoked for end in ends):
                    found.add((op.index, p))
    return found


def offset_regression(ops: list[Op]) -> set[Any]:
    return _wrong_fetches(ops, drained=False)


def commit_lost(ops: list[Op]) -> set[Any]:
    return _wrong_fetches(ops, drained=True)


def offset_not_linearizable(ops: list[Op]) -> set[Any]:
    wrong = offset_regression(ops) | commit_lost(ops)
    return {key for key in _registers(ops) if not _explained(ops, key, wrong)}


def unexplained_registers(ops: list[Op]) -> set[Any]:
    """The same, with the fetches that are wrong by themselves."""
    return {key for key in _registers(ops) if not _explained(ops, key, set())}


def _registers(ops: list[Op]) -> set[tuple[str, str]]:
    return {(_group(op), p) for op in _of(ops, "fetch_offsets") for p in _read(op)}


def _explained(ops: list[Op], key: tuple[str, str], left_out: set[Any]) -> bool:
    """Whether some order of the commits has a place for every fetch, each a number of commits that it shows."""
    group, p = key
    commits = [op for op in _of(ops, "commit_offsets", "ok", "info") if _group(op) == group and p in _written(op)]
    fetches = [
        op
        for op in _of(ops, "fetch_offsets")
        if _group(op) == group and p in _read(op) and (op.index, p) not in left_out
    ]
    fetches.sort(key=lambda op: op.invoked)
    lower = {
        op.index: {
            fact.index
            for fact in (*commits, *fetches)
            if fact.outcome == "ok"
            and fact is not op
            and (_drained_knows if _drained(op) else _must_know)(ops, fact, op)
        }
        for op in fetches
    }
    return any(_has_places(order, fetches, p, lower) for order in _orders([], commits))


def _drained(op: Op) -> bool:
    return bool(op.request["phase"].startswith("drain"))


def _drained_knows(_: list[Op], fact: Op, reader: Op) -> bool:
    return (fact.done or 0) < reader.invoked


def _orders(begun: list[Op], left: list[Op]) -> Iterator[list[Op]]:
    """All orders of commits by real time, with all that were acknowledged."""
    if all(op.outcome == "info" for op in left):
        yield begun
    for op in left:
        rest = [other for other in left if other is not op]
        if not any(other.outcome == "ok" and (other.done or 0) < op.invoked for other in rest):
            yield from _orders([*begun, op], rest)


def _has_places(order: list[Op], fetches: list[Op], p: str, lower: dict[int, set[int]]) -> bool:
    placed = {op.index: place for place, op in enumerate(order, 1)}
    shown = [-1, *(_written(op)[p] for op in order)]
    for fetch in fetches:
        least = max((placed.get(index, 0) for index in lower[fetch.index]), default=0)
        most = next((at for at, op in enumerate(order) if op.invoked > (fetch.done or 0)), len(order))
        fitting = [place for place in range(least, most + 1) if shown[place] == _read(fetch)[p]]
        if not fitting:
            return False
        placed[fetch.index] = fitting[0]
    return True


def commit_ahead(ops: list[Op]) -> set[Any]:
    found = set()
    told = [(op, _written(op)) for op in _of(ops, "commit_offsets")] + [
        (op, _read(op)) for op in _of(ops, "fetch_offsets")
    ]
    for op, offsets in told:
        for p, value in offsets.items():
            given = [
                poll.response["next_position"]
                for poll in _of(ops, "poll")
                if poll.request.get("group") == _group(op)
                and f"{poll.request['topic']}-{poll.request['partition']}" == p
                and poll.invoked < (op.done or 0)
            ]
            if value > max(given, default=0):
                found.add((op.index, p))
    return found


def fenced_commit(ops: list[Op]) -> set[Any]:
    return {
        op.index
        for op in _of(ops, "commit_offsets")
        for sync in _of(ops, "sync")
        if (sync.done or 0) < op.invoked and _fences(ops, sync, op)
    }


def _fences(ops: list[Op], sync: Op, commit: Op) -> bool:
    """Whether it is of a later generation than the commit, or of its instance under a later id."""
    if _group(sync) != _group(commit):
        return False
    if sync.request["generation"] > commit.request["generation"] >= 0:
        return True
    instance = commit.request.get("instance")
    if instance is None or sync.request.get("instance") != instance:
        return False
    joins = _of(ops, "join")
    first = _first_join(joins, commit, commit.request["member"])
    later = _first_join(joins, commit, sync.request["member"])
    return first is not None and later is not None and later.invoked > (first.done or 0)


def _first_join(joins: list[Op], op: Op, member: str) -> Op | None:
    mine = [
        join
        for join in joins
        if _group(join) == _group(op)
        and join.request.get("instance") == op.request.get("instance")
        and join.response["member"] == member
    ]
    return min(mine, key=lambda join: join.index, default=None)


def generation(ops: list[Op]) -> set[Any]:
    answers = [(op, op.response["generation"]) for op in _of(ops, "join")]
    answers += [(op, op.request["generation"]) for f in ("sync", "heartbeat") for op in _of(ops, f)]
    return {
        op.index
        for op, told in answers
        for sync in _of(ops, "sync")
        if sync.request["generation"] > told and _must_know(ops, sync, op)
    }


GROUP_TWINS: dict[str, Callable[[list[Op]], set[Any]]] = {
    "overlapping-owners": overlapping_owners,
    "offset-regression": offset_regression,
    "commit-lost": commit_lost,
    "offset-not-linearizable": offset_not_linearizable,
    "commit-ahead": commit_ahead,
    "fenced-commit": fenced_commit,
    "generation": generation,
    "static-member": static_member,
}
