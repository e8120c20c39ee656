"""One anomaly of transactions each, planted in a history that a model wrote."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tests.support.histories import OUT

Lines = list[dict[str, Any]]


def _committed(lines: Lines, least: int = 1) -> dict[int, list[int]]:
    """Committed transaction that processed nothing → its values, where there are `least` of them."""
    values: dict[int, list[int]] = {}
    for line in lines:
        if line["type"] == "invoke" and line["f"] == "send" and line.get("txn") is not None and "sources" not in line:
            values.setdefault(line["txn"], []).extend(line["values"])
    ends = {
        lines[line["invoke"]]["txn"]
        for line in lines
        if line.get("f") == "end_txn" and line["type"] == "ok" and lines[line["invoke"]]["commit"]
    }
    return {txn: sent for txn, sent in values.items() if txn in ends and len(sent) >= least}


def _polls(lines: Lines, isolation: int) -> list[dict[str, Any]]:
    """Responses."""
    return [
        line
        for line in lines
        if line["f"] == "poll" and line["type"] == "ok" and lines[line["invoke"]]["isolation"] == isolation
    ]


def _hide(lines: Lines, hidden: set[int]) -> None:
    for poll in _polls(lines, 1):
        poll["records"] = [record for record in poll["records"] if record["value"] not in hidden]


def _end(lines: Lines, txn: int) -> dict[str, Any]:
    return next(li for li in lines if li["f"] == "end_txn" and li["type"] == "invoke" and li["txn"] == txn)


def shown_though_aborted(rng: Random, lines: Lines) -> None:
    _end(lines, rng.choice(sorted(_committed(lines))))["commit"] = False


def _reads(lines: Lines) -> list[tuple[dict[str, Any], int]]:
    """The end of each committed transaction, and when a value of it was first shown."""
    return [
        (
            _end(lines, txn),
            min(p["time_ns"] for p in _polls(lines, 1) if any(r["value"] in values for r in p["records"])),
        )
        for txn, values in sorted(_committed(lines).items())
    ]


def _taken_within(lines: Lines, end: dict[str, Any], until_ns: int) -> bool:
    """Whether another producer takes the id before that time: the end would be of one that was fenced."""
    return any(
        line["f"] == "init_producer"
        and line["type"] == "invoke"
        and line["transactional_id"] == end["transactional_id"]
        and end["time_ns"] < line["time_ns"] <= until_ns + 2
        for line in lines
    )


def shown_too_early(rng: Random, lines: Lines) -> None:
    end, read_ns = rng.choice([one for one in _reads(lines) if not _taken_within(lines, *one)])
    end["time_ns"] = read_ns + 1
    next(line for line in lines if line.get("invoke") == end["index"])["time_ns"] = read_ns + 2


def shown_in_part(rng: Random, lines: Lines) -> None:
    _, values = rng.choice(sorted(_committed(lines, 2).items()))
    _hide(lines, {rng.choice(values)})


def shown_in_part_without_an_answer(rng: Random, lines: Lines) -> None:
    """Nobody was told that it is committed; that one value is shown says so."""
    txn, values = rng.choice(sorted(_committed(lines, 2).items()))
    next(line for line in lines if line.get("invoke") == _end(lines, txn)["index"]).update(type="info", error="timeout")
    _hide(lines, {rng.choice(values)})


def not_shown_at_all(rng: Random, lines: Lines) -> None:
    _, values = rng.choice(sorted(_committed(lines).items()))
    _hide(lines, set(values))


def stable_offset_falls(rng: Random, lines: Lines) -> None:
    able = [
        poll
        for poll in _polls(lines, 0)
        if poll["phase"] == "drain-current"
        and lines[poll["invoke"]]["reader"] == "wire"
        and not poll["topic"].endswith(OUT)
    ]
    rng.choice(able)["lso"] = 0


def end_above_what_is_open(rng: Random, lines: Lines) -> None:
    """ListOffsets under read_committed tells the end of the log while its last record awaits the commit."""
    committed = _committed(lines)
    able = [
        line for line in lines if line["f"] == "send" and line["type"] == "ok" and _txn_of(lines, line) in committed
    ]
    sent = rng.choice(able)
    end = sent["base_offset"] + len(lines[sent["invoke"]]["values"])
    kept = {"process": 9_000, "kind": "client", "f": "list_offsets", "phase": "main"}
    kept |= {name: sent[name] for name in ("topic", "partition", "node")}
    asked = {"timestamp": -1, "isolation": 1, "leader_epoch": 0}
    index, at_ns = len(lines), sent["time_ns"]
    lines.append({"index": index, "type": "invoke", "time_ns": at_ns + 1, **kept, **asked})
    answer = {"type": "ok", "invoke": index, "time_ns": at_ns + 2, "offset": end, "leader_epoch_answered": 0}
    lines.append({"index": index + 1, **kept, **answer})


def _txn_of(lines: Lines, answer: dict[str, Any]) -> int | None:
    txn = lines[answer["invoke"]].get("txn")
    return None if txn is None else int(txn)


def nothing_ends_it(rng: Random, lines: Lines) -> None:
    able = [line for line in lines if line["f"] == "transactions-ended" and not line["topic"].endswith(OUT)]
    mark = rng.choice(able)
    mark.update(f="transactions-open", start=mark["end"] - 1, error="not in time")


def offsets_stay_undecided(_rng: Random, lines: Lines) -> None:
    (answer,) = [li for li in lines if li["f"] == "fetch_offsets" and li["type"] == "ok" and li["phase"] == "final"]
    del answer["offsets"]
    answer.update(type="fail", error="UNSTABLE_OFFSET_COMMIT", time_ns=answer["time_ns"] + 11_000_000_000)


def _fetched(rng: Random, lines: Lines) -> dict[str, Any]:
    able = [li for li in lines if li["f"] == "fetch_offsets" and li["type"] == "ok" and li["phase"] == "main"]
    (offset,) = rng.choice(able[1:])["offsets"]
    assert isinstance(offset, dict)
    return offset


def offset_of_nobody(rng: Random, lines: Lines) -> None:
    _fetched(rng, lines)["offset"] += 1000


def offset_forgotten(rng: Random, lines: Lines) -> None:
    _fetched(rng, lines)["offset"] = -1


def offset_shown_and_forgotten(_rng: Random, lines: Lines) -> None:
    """The last commit of offsets got no answer, and was shown; who asks later is told the one before."""
    answered = [line for line in lines if line["f"] == "end_txn" and line["type"] == "ok"]
    committed = {lines[one["invoke"]]["txn"]: one for one in answered if lines[one["invoke"]]["commit"]}
    sent = [line for line in lines if line["f"] == "txn_offsets" and line["type"] == "invoke"]
    *before, last = [(line["offsets"][0], committed[line["txn"]]) for line in sent if line["txn"] in committed]
    last[1].update(type="info", error="timeout")
    p, offset = last[0]["p"], max(one["offset"] for one, _ in before)
    assert offset < last[0]["offset"]
    fetch = next(line for line in lines if line["f"] == "fetch_offsets" and line["type"] == "invoke")
    index, at_ns = len(lines), lines[-1]["time_ns"]
    lines.append({**fetch, "index": index, "time_ns": at_ns + 1, "process": 9_001})
    kept = {name: fetch[name] for name in ("kind", "f", "phase", "topic", "partition", "node")}
    answer = {"type": "ok", "invoke": index, "offsets": [{"p": p, "offset": offset}]}
    lines.append({**kept, **answer, "index": index + 1, "time_ns": at_ns + 2, "process": 9_001})


def _sources(rng: Random, lines: Lines) -> list[int]:
    shown = {record["value"] for poll in _polls(lines, 1) for record in poll["records"]}
    able = [li["sources"] for li in lines if "sources" in li and li["type"] == "invoke" and set(li["values"]) <= shown]
    sources = rng.choice([one for one in able if len(one) > 1])
    assert isinstance(sources, list)
    return sources


def input_taken_twice(rng: Random, lines: Lines) -> None:
    sources = _sources(rng, lines)
    sources[0] = sources[1]


def input_passed_over(rng: Random, lines: Lines) -> None:
    """The value of a source that nobody sent."""
    _sources(rng, lines)[0] = 999_999


def taken_from_a_zombie(rng: Random, lines: Lines) -> None:
    able = [line for line in lines if line["f"] == "add_partitions" and line["type"] == "fail"]
    answer = rng.choice(able)
    answer["type"] = "ok"
    del answer["error"]


def given_twice(rng: Random, lines: Lines) -> None:
    """Who took the id got the epoch of the one before."""
    able = [line for line in lines if line["f"] == "init_producer" and line.get("producer_epoch", 0) > 0]
    rng.choice(able)["producer_epoch"] -= 1


DAMAGE: dict[str, tuple[Callable[[Random, Lines], None], ...]] = {
    "aborted-transaction-read": (shown_though_aborted,),
    "precommitted-read": (shown_too_early,),
    "torn-transaction": (shown_in_part, shown_in_part_without_an_answer),
    "committed-lost": (not_shown_at_all,),
    "last-stable-offset": (stable_offset_falls, end_above_what_is_open),
    "hanging-transaction": (nothing_ends_it, offsets_stay_undecided),
    "transaction-offsets": (offset_of_nobody, offset_forgotten, offset_shown_and_forgotten),
    "exactly-once": (input_taken_twice, input_passed_over),
    "fenced-producer": (taken_from_a_zombie, given_twice),
}
"""What is found, and ways to it."""
