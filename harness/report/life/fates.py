"""What became of each record that stood at an offset, in one sentence: acknowledged or not, shown or not, held by whom.

Decides what is summed up, and its words. Says no more than what was recorded: of a node that was not seen nothing is
known. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from harness.report.life.holdings import Holding
from harness.report.life.told import Told, outcome
from harness.report.words import listed, value_name

LedBy = Callable[[int], str | None]
"""Leader epoch → who had it, where that is known."""


def fates(
    told: Told, holdings: Sequence[Holding], offset: int, names: Mapping[str, str], led_by: LedBy, *, compacts: bool
) -> list[str]:
    """Sentences: one of each value, and of what is no record of the lab. compacts: the topic is compacted."""
    found = [_fate(value, told, holdings, offset, names, led_by, compacts=compacts) for value in sorted(told.values)]
    for kind, what in (("marker", "A transaction's marker stands there"), ("record", "Another's record stands there")):
        here = [one for one in holdings if one.kind == kind and one.value is None]
        if here:
            found.append(f"{what}, in the files of {_held(here, led_by)}.")
    return found


def _fate(
    value: int,
    told: Told,
    holdings: Sequence[Holding],
    offset: int,
    names: Mapping[str, str],
    led_by: LedBy,
    *,
    compacts: bool,
) -> str:
    name = value_name(value, names)
    said = [*_sent(value, told, offset), *_ended(value, told), _shown(value, told, offset)]
    here = [one for one in holdings if one.kind == "record" and one.value == value]
    if here:
        left = f"it is in the files of {_held(here, led_by)}"
        lacking = [one for one in holdings if one not in here and one.kind != "missing"]
        if lacking:
            left += f", and not in those of {listed(one.node for one in lacking)}"
    elif all(one.kind == "missing" for one in holdings):
        left = "no replica's files are there to hold it"
    else:
        left = f"no file that was copied holds it{_instead(value, told, holdings, compacts=compacts)}"
    text = f"{name}: {', '.join(said)}; {left}."
    return text[0].upper() + text[1:] if str(value) not in names else text


def _sent(value: int, told: Told, offset: int) -> list[str]:
    sends = [op for op in told.sends if value in (op[0].get("values") or ())]
    if not sends:
        return ["nobody's send of it is in the history"]
    for send in sends:
        if outcome(send) != "ok":
            continue
        acks = "all" if send[0].get("acks") == -1 else send[0].get("acks")
        if send[0].get("acks") == 0:
            return ["sent with acks=0, which nobody acknowledges"]
        base = send[1].get("base_offset")
        at = base + list(send[0]["values"]).index(value) if isinstance(base, int) and base >= 0 else None
        where = f" at offset {at}" if at not in (None, offset) else ""
        return [f"acknowledged{where} (acks={acks})"]
    if all(outcome(send) == "fail" for send in sends):
        return [f"refused ({sends[-1][1].get('error')})"]
    return ["sent, and never acknowledged"]


def _ended(value: int, told: Told) -> list[str]:
    """Of its transaction, by what clients asked of the coordinator."""
    own = {op[0]["txn"] for op in told.sends if op[0].get("txn") is not None and value in (op[0].get("values") or ())}
    said = []
    for txn in sorted(own):
        ends = [op for op in told.operations if op[0].get("f") == "end_txn" and op[0].get("txn") == txn]
        commits = [outcome(op) for op in ends if op[0].get("commit")]
        if "ok" in commits:
            said.append(f"transaction {txn} committed")
        elif all(one == "fail" for one in commits):
            aborted = any(outcome(op) == "ok" for op in ends)
            said.append(f"transaction {txn} {'aborted' if aborted else 'not committed'}")
        else:
            said.append(f"transaction {txn} perhaps committed, perhaps not")
    return said


def _shown(value: int, told: Told, offset: int) -> str:
    polls = [op for op in told.operations if op[0].get("f") == "poll" and outcome(op) == "ok"]
    shown = [
        op
        for op in polls
        if any(r.get("value") == value and r.get("offset") == offset for r in op[1].get("records") or ())
    ]
    if not shown:
        return "never read" + (f", though {len(polls)} polls went over its offset" if len(polls) > 1 else "")
    times = "once" if len(shown) == 1 else f"{len(shown)} times"
    first_s = min(int(op[1].get("time_ns", 0)) for op in shown) / 1e9
    if any(op[0].get("txn") is not None and value in (op[0].get("values") or ()) for op in told.sends):
        stable = sum(op[0].get("isolation") == 1 for op in shown)
        times += f" ({stable or 'never'} under read_committed)"
    return f"read {times}, first at {first_s:.3f} s"


def _held(here: Sequence[Holding], led_by: LedBy) -> str:
    """Nodes, by the leader epoch of their batches."""
    epochs: dict[int | None, list[str]] = {}
    for one in here:
        epochs.setdefault(one.epoch, []).append(one.node)
    said = []
    for epoch, nodes in epochs.items():
        leader = None if epoch is None else led_by(epoch)
        by = "" if leader is None else f", which was {leader}'s by ZooKeeper"
        said.append(f"{listed(nodes)} (leader epoch {epoch}{by})")
    return " and ".join(said)


def _instead(value: int, told: Told, holdings: Sequence[Holding], *, compacts: bool) -> str:
    """Why, so far as the files show it."""
    others = sorted({one.value for one in holdings if one.kind == "record" and one.value not in (None, value)})
    kinds = {one.kind for one in holdings} - {"missing"}
    if others:
        return f": {listed(f'value {other}' for other in others)} stands there"
    if kinds == {"below"}:
        return ": every log begins after it"
    if kinds == {"beyond"}:
        return ": every log ends before it"
    if kinds <= {"compacted", "gap", "below"} and (compacts or "compacted" in kinds):
        return f": compaction took it away{_superseded(value, told)}"
    if kinds == {"marker"}:
        return ": a transaction's marker stands there"
    return ""


def _superseded(value: int, told: Told) -> str:
    """By which later record of its key, so far as the history knows keys."""
    send = next((op[0] for op in told.sends if op[0].get("keys") and value in (op[0].get("values") or ())), None)
    if send is None:
        return ""
    nth = list(send["values"]).index(value)
    key = send["keys"][nth]
    if key in told.successors:
        offset, later = told.successors[key]
        return f", for value {later} at offset {offset} is a later one of its key, {key}"
    if (send.get("tombstones") or [False] * (nth + 1))[nth]:
        return f", as it does in time with a tombstone (of key {key})"
    return f", though no later one of its key, {key}, was acknowledged"
