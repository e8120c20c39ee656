"""Changes of a run in the replicas' logs: their bytes, their epochs, and where they were cut."""

from __future__ import annotations

from typing import Any

from tests.golden.limits import RETENTION_MS
from tests.golden.white_parts import last_event, put_after
from tests.support.histories import TICK_NS
from tests.support.judging import Case
from tests.support.known_faults import said_of


def bytes_differ(case: Case) -> None:
    case.tables["batches"][1]["digest"] = "other"


def _damaged(case: Case, file: str) -> None:
    """Of the replica whose bytes differ a fault hit this file."""
    bytes_differ(case)
    kill = next(line for line in case.history if line.get("fault") == "kill" and line["f"] == "start")
    hit = {"fault": "bitflip", "fault_id": 999, "targets": [case.tables["batches"][1]["node"]], "file": file}
    case.history.append({**kill, **hit, **said_of("bitflip"), "index": len(case.history)})


def bytes_differ_by_damage(case: Case) -> None:
    _damaged(case, f"{case.tables['batches'][1]['p']}/00000000000000000000.log")


def bytes_differ_beside_damage(case: Case) -> None:
    """The file that was hit is of another partition."""
    _damaged(case, "another-0/00000000000000000000.log")


def bytes_differ_beside_a_damaged_checkpoint(case: Case) -> None:
    """The file that was hit is of no partition: no batch is in it."""
    _damaged(case, "recovery-point-offset-checkpoint")


def short_leader(case: Case) -> None:
    last_event(case, e="become_leader").update(leo=1, hw=1)


def epochs_repeat(case: Case) -> None:
    rows = [row for row in case.tables["checkpoints"] if row["kind"] == "epoch" and row["position"] == 1]
    rows[0]["offset"] = 0


def without_epochs(case: Case, first: int) -> None:
    """Of one replica the epoch file lacks so many of its first entries."""
    rows = case.tables["checkpoints"]
    mine = [row for row in rows if row["kind"] == "epoch" and row["node"] == rows[0]["node"]]
    assert len(mine) > 1
    case.tables["checkpoints"] = [row for row in rows if row not in mine[:first]]


def first_epoch_gone(case: Case) -> None:
    """As it is once the start of the log was moved, while the batches below it are there still."""
    without_epochs(case, 1)


def epochs_gone(case: Case) -> None:
    without_epochs(case, len(case.tables["checkpoints"]))


def hole_in_log(case: Case) -> None:
    node = case.tables["batches"][0]["node"]
    case.tables["batches"] = [b for b in case.tables["batches"] if b["node"] != node or b["base"] != 2]


def cut_in_isr(case: Case) -> None:
    line = last_event(case, e="become_follower")
    cut = {**line, "e": "truncate", "from_leo": line["leo"], "to": 1, "in_isr": True, "reason": "high-watermark"}
    for later in case.tables["events"]:
        if later["b"] == line["b"] and later["i"] == line["i"] and later["s"] > line["s"]:
            later["s"] += 1
    cut["s"] = line["s"] + 1
    case.tables["events"].insert(case.tables["events"].index(line) + 1, cut)


def _follower_cuts(case: Case, below: int) -> None:
    """A follower's last line is a cut, in the epoch in which all that goes was committed."""
    hw = last_event(case, e="hw", role="follower")
    last = [e for e in case.tables["events"] if e["i"] == hw["i"]][-1]
    about = {"p": hw["p"], "le": hw["le"]}
    batch = {**about, "e": "append", "role": "follower", "base": hw["hw"], "last": hw["hw"]}
    cut = {"from_leo": hw["hw"] + 1, "to": hw["hw"] - below, "hw": hw["hw"], "in_isr": True}
    put_after(case, last, batch, {**about, "e": "truncate", "reason": "diverging-epoch", **cut})


def cut_below_a_watermark_that_it_leaves_out(case: Case) -> None:
    """After a legal cut; the lines before say how much it had known to be committed, and its own says less."""
    _follower_cuts(case, 0)
    cut = last_event(case, e="truncate")
    again = {name: cut[name] for name in ("e", "p", "le", "reason", "in_isr")}
    put_after(case, cut, {**again, "from_leo": cut["to"], "to": cut["to"] - 1, "hw": cut["to"] - 1})


def cut_below_own_watermark(case: Case) -> None:
    _follower_cuts(case, 1)


def cut_to_own_watermark(case: Case) -> None:
    _follower_cuts(case, 0)


def _opened_again(case: Case, above: int, *between: dict[str, Any], fetched: bool = True) -> None:
    """A restarted broker finds a log that ends `above` the highest watermark of its life before.

    between: the last lines of that life. fetched: what is missing comes from its leader.
    """
    opened = last_event(case, e="recovered")
    mine = [e for e in case.tables["events"] if e["b"] == opened["b"] and e["i"] != opened["i"]]
    known = max(e["hw"] for e in mine if "hw" in e)
    opened.update(leo=known + above, hw=min(opened["hw"], known + above))
    role = next(e for e in case.tables["events"] if e["i"] == opened["i"] and e["e"] == "become_follower")
    role.update(leo=opened["leo"], hw=min(role["hw"], opened["hw"]))
    if fetched and above < 0:
        written = next(e for e in mine if e["e"] == "append" and e["last"] == known - 1)
        batch = {"e": "append", "p": role["p"], "le": written["le"], "role": "follower"}
        put_after(case, role, {**batch, "base": known + above, "last": known - 1})
    put_after(case, mine[-1], *({"p": opened["p"], "le": 0, **line} for line in between))


def end_forgotten(case: Case) -> None:
    _opened_again(case, -1)


def end_at_the_watermark(case: Case) -> None:
    _opened_again(case, 0)


def end_deleted(case: Case) -> None:
    """The partition was told to go, and came back."""
    _opened_again(case, -1, {"e": "stop_replica", "delete": True})


def end_forgotten_after_a_stop(case: Case) -> None:
    """It was told to stop, not to go."""
    _opened_again(case, -1, {"e": "stop_replica", "delete": False})


def end_cut(case: Case) -> None:
    """What is missing was cut, by a replica outside the ISR that cuts its logs to the watermark."""
    cut = {"e": "truncate", "from_leo": 3, "to": 2, "hw": 2, "in_isr": False, "reason": "high-watermark"}
    _opened_again(case, -1, cut)
    for line in case.tables["events"]:
        if line["e"] == "start" and line["b"] == last_event(case, e="recovered")["b"]:
            line["truncation"] = "high-watermark"


def begun_anew(case: Case) -> None:
    """The restarted broker finds that its leader's log begins above all that it ever had."""
    _opened_again(case, -1, fetched=False)
    anew = {"e": "truncate", "from_leo": 2, "to": 3, "hw": 2, "in_isr": False, "reason": "out-of-range"}
    role = last_event(case, e="become_follower", b=last_event(case, e="recovered")["b"])
    role.update(leo=2, hw=2)
    put_after(case, role, {**anew, "p": role["p"], "le": role["le"]})


def end_damaged(case: Case) -> None:
    """A fault had taken bytes of that node's files."""
    _opened_again(case, -1)
    opened = last_event(case, e="recovered")
    kill = next(line for line in case.history if line.get("fault") == "kill" and line["f"] == "start")
    hit = {"fault": "truncate-file", "fault_id": 999, "targets": [opened["node"]], **said_of("truncate-file")}
    case.history.append({**kill, **hit, "index": len(case.history)})


def head_expired(case: Case) -> None:
    """One replica's log starts later, and its files were copied when the rest was old."""
    _head_gone(case)
    copied = next(line for line in case.history if line["f"] == "evidence")
    copied["time_ns"] += 2 * RETENTION_MS * TICK_NS


def head_young(case: Case) -> None:
    """The same, and all that was sent just before the files were copied."""
    _head_gone(case)
    for line in case.history:
        line["time_ns"] += 2 * RETENTION_MS * TICK_NS
    for event in case.tables["events"]:
        for clock in ("w", "m", "t_ns"):
            event[clock] += 2 * RETENTION_MS * TICK_NS
    for row in case.tables["znodes"]:
        row["time_ms"] += 2 * RETENTION_MS


def _head_gone(case: Case) -> None:
    node = case.tables["batches"][0]["node"]
    case.tables["batches"] = [row for row in case.tables["batches"] if row["node"] != node or row["base"] >= 2]
