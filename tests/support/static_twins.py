"""Slow, plain twin of `static-member`: loops over operations, nothing shared with the checker."""

from __future__ import annotations

from typing import Any

from tests.support.twins import Op

_NEVER = 2**62
_MS = 1_000_000
_LATE_MS = 5_000


def static_member(ops: list[Op]) -> set[Any]:
    """Returns that lost their place, and (group, generation, owner) of those with two shares."""
    asked = [op for op in ops if op.f in ("join", "sync", "heartbeat", "leave")]
    syncs = [op for op in asked if op.f == "sync" and op.outcome == "ok"]
    shares: dict[tuple[str, int, str], set[tuple[str, ...]]] = {}
    for op in syncs:
        place = (op.request["group"], op.request["generation"], _owner(op))
        shares.setdefault(place, set()).add(tuple(sorted(op.response["partitions"])))
    found: set[Any] = {place for place, given in shares.items() if len(given) > 1}
    for op in asked:
        if op.f != "join" or op.outcome != "ok" or op.request["member"] or op.request.get("instance") is None:
            continue
        of_group = [one for one in asked if one.request["group"] == op.request["group"]]
        had = [
            (one.invoked, one.index, one.request["generation"])
            for one in syncs
            if one in of_group and _owner(one) == _owner(op) and (one.done or 0) < op.invoked
        ]
        present = max(had)[2] if had else op.response["generation"]
        if op.response["generation"] > present and not _disturbed(op, present, of_group, ops):
            found.add(op.index)
    return found


def _owner(op: Op) -> str:
    return str(op.request.get("instance") or op.request["member"] or op.response.get("member"))


def _generation(op: Op) -> int:
    return int(op.response["generation"] if op.f == "join" else op.request["generation"])


def _disturbed(back: Op, present: int, of_group: list[Op], ops: list[Op]) -> bool:
    answered = back.done or 0
    late = (back.request["session_ms"] + back.request["rebalance_ms"] + _LATE_MS) * _MS
    session = min(back.request["session_ms"], back.request["rebalance_ms"]) * _MS
    refreshed = [op for op in of_group if op.outcome == "ok" and op.f != "leave"]
    since = min(op.done or 0 for op in refreshed if op.f == "sync" and _generation(op) == present)
    for op in of_group:
        until = (_NEVER if op.done is None else op.done) + (late if op.outcome == "info" else 0)
        settled = op.f == "join" and op.outcome == "ok" and _generation(op) <= present
        moves = op.f == "leave" or (op.f == "join" and not settled)
        if op is not back and moves and op.invoked < answered and until > since and not _follows(op, back, ops):
            return True
    for op in refreshed:
        if op.invoked >= answered:
            continue
        if (op.done or 0) >= since and op.request["node"] != back.request["node"]:
            return True
        if _generation(op) == present:
            mine = [one for one in refreshed if _owner(one) == _owner(op) and _generation(one) == present]
            later = [one.done or 0 for one in mine if (one.invoked, one.index) > (op.invoked, op.index)]
            if min([answered, *later]) - op.invoked > session:
                return True
        instance = op.request.get("instance")
        if instance not in (None, back.request["instance"]) and _generation(op) < present:
            inside = any(
                one.f == "join" and one.request.get("instance") == instance and _generation(one) == present
                for one in refreshed
            )
            if not inside and (op.done or 0) + late > since:
                return True
    return False


def _follows(op: Op, back: Op, ops: list[Op]) -> bool:
    """A member joins again because it was told to, and not before the return was begun."""
    return bool(op.f == "join" and op.request["member"] and op.invoked > back.invoked) and any(
        one.request.get("group") == op.request["group"]
        and one.request.get("member") == op.request["member"]
        and one.response.get("error") == "REBALANCE_IN_PROGRESS"
        and one.invoked > back.invoked
        and (one.done or 0) < op.invoked
        for one in ops
    )
