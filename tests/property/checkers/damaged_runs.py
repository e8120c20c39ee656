"""Damage to a run folder: evidence, and lines of the history, that are missing, cut, or say something else."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any


def no_event_log(folder: Path) -> None:
    (folder / "evidence" / "n2" / "events.jsonl").unlink()


def lost_incarnation(folder: Path) -> None:
    """All lines of one incarnation of one broker, as if its file had been replaced."""
    for path in sorted(folder.glob("evidence/*/events.jsonl")):
        lines = path.read_text().splitlines(keepends=True)
        incarnations = list(dict.fromkeys(json.loads(line)["i"] for line in lines))
        if len(incarnations) > 1:
            path.write_text("".join(line for line in lines if json.loads(line)["i"] != incarnations[0]))
            return
    raise AssertionError("no broker was restarted in this life")


def no_drain_of_one_replica(folder: Path) -> None:
    drop(folder, lambda line: line["f"] == "drain-complete" and line["leader"] == "n3")


def no_confluent(folder: Path) -> None:
    drop(folder, lambda line: line["f"] == "drain-complete" and line["reader"] == "confluent")


def healed_cluster_not_read(folder: Path) -> None:
    """Both readers gave up on one partition before the rotation; each replica was read well after its restart."""
    lines = history_of(folder)
    for line in lines:
        if line["f"] == "drain-complete" and line["phase"] == "drain-current" and line["partition"] == 1:
            line.update(f="drain-incomplete", start=None, end=None, error="poll at n2: timeout")
    write_history(folder, lines)


def healed_cluster_not_spoken_of(folder: Path) -> None:
    drop(
        folder,
        lambda line: (
            line["f"] == "drain-complete" and line["phase"] == "drain-current" and line["reader"] == "confluent"
        ),
    )


def history_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]


def write_history(folder: Path, lines: list[dict[str, Any]]) -> None:
    (folder / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def no_sentinel(folder: Path) -> None:
    path = folder / "history.jsonl"
    path.write_text(path.read_text().replace('"sentinel": true', '"sentinel": false'))


def no_zookeeper(folder: Path) -> None:
    shutil.rmtree(folder / "evidence" / "zk1")


def no_segments(folder: Path) -> None:
    shutil.rmtree(folder / "evidence" / "n1" / "data")


def line_cut_in_the_middle(folder: Path) -> None:
    path = folder / "history.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    lines[5] = lines[5][:20] + "\n"
    path.write_text("".join(lines))


def fault_never_seen(folder: Path) -> None:
    path = folder / "history.jsonl"
    path.write_text(path.read_text().replace('"observed": true', '"observed": false'))


def event_line_spoilt(folder: Path) -> None:
    """The last one of n3, of which a number is none any more: a kill leaves no end of a line."""
    path = folder / "evidence" / "n3" / "events.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    lines[-1] = re.sub(r'("s": ?)\d+', r"\1?", lines[-1])
    path.write_text("".join(lines))


def drop(folder: Path, unwanted: Callable[[dict[str, Any]], bool]) -> None:
    """Remove lines and number the rest anew (only lines that nothing refers to)."""
    kept = [line for line in history_of(folder) if not unwanted(line)]
    new = {line["index"]: nth for nth, line in enumerate(kept)}
    for line in kept:
        line["index"] = new[line["index"]]
        if "invoke" in line:
            line["invoke"] = new[line["invoke"]]
    write_history(folder, kept)


def cut_a_log(folder: Path) -> None:
    """The copy of one log of n1 broke off on the way."""
    segment = folder / "evidence" / "n1" / "data" / "hw-0" / f"{0:020d}.log"
    segment.write_bytes(segment.read_bytes()[: segment.stat().st_size * 2 // 5])


def copied_in_part(folder: Path) -> None:
    for line in (lines := history_of(folder)):
        if line["f"] == "evidence" and line["node"] == "n1":
            line["error"] = "OSError: connection lost"
    write_history(folder, lines)


def ended_while_copying(folder: Path) -> None:
    """Nobody says that anything was copied of n1."""
    drop(folder, lambda line: line["f"] == "evidence" and line["node"] == "n1")
    run = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**run, "finished": False}))
