"""Damage to a run folder by chance: lines and files that are gone, doubled, cut, out of order, or say something else.

Each kind is a function of a folder and a generator of random numbers, which changes the folder and says what it did.
What it may have changed in what the run shows, nobody knows, so that valid is a wrong verdict of a folder that is not
what was recorded.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any

Damage = Callable[[Path, Random], str]
BYTES_SEEN = 4096
"""Random places lie in so many bytes of a file's end or beginning at most: a segment is preallocated, mostly zeros."""


def _lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines(keepends=True)


def _event_log(folder: Path, rng: Random) -> Path:
    return rng.choice(sorted(path for path in folder.glob("evidence/*/events.jsonl") if path.stat().st_size))


def _evidence_file(folder: Path, rng: Random) -> Path:
    """One that the checkers read: event logs, segments and epoch files of the run's topic, checkpoints, ZooKeeper's."""
    topic = json.loads((folder / "run.json").read_text())["topic"]["name"]
    patterns = (
        "*/events.jsonl",
        f"*/data/{topic}-*/*.log",
        f"*/data/{topic}-*/leader-epoch-checkpoint",
        "*/data/*-checkpoint",
        "*/zookeeper/version-2/log.*",
    )
    found = rng.choice([files for pattern in patterns if (files := sorted((folder / "evidence").glob(pattern)))])
    return rng.choice([path for path in found if path.stat().st_size] or found)


def _said(path: Path, folder: Path, what: str) -> str:
    return f"{path.relative_to(folder)}: {what}"


def _line_dropped(path: Path, folder: Path, rng: Random) -> str:
    lines = _lines_of(path)
    at = rng.randrange(len(lines))
    gone = lines.pop(at)
    path.write_text("".join(lines), encoding="utf-8")
    return _said(path, folder, f"line {at + 1} dropped: {gone[:300].rstrip()}")


def _lines_swapped(path: Path, folder: Path, rng: Random) -> str:
    lines = _lines_of(path)
    at, other = rng.sample(range(len(lines)), 2)
    lines[at], lines[other] = lines[other], lines[at]
    path.write_text("".join(lines), encoding="utf-8")
    return _said(path, folder, f"lines {at + 1} and {other + 1} swapped")


def _line_doubled(path: Path, folder: Path, rng: Random) -> str:
    lines = _lines_of(path)
    at = rng.randrange(len(lines))
    lines.insert(rng.randrange(len(lines) + 1), lines[at])
    path.write_text("".join(lines), encoding="utf-8")
    return _said(path, folder, f"line {at + 1} doubled")


def _line_cut(path: Path, folder: Path, rng: Random) -> str:
    lines = _lines_of(path)
    at = rng.randrange(len(lines))
    lines[at] = lines[at][: rng.randrange(1, len(lines[at]) - 1)] + "\n"
    path.write_text("".join(lines), encoding="utf-8")
    return _said(path, folder, f"line {at + 1} cut: {lines[at][-60:].rstrip()}")


def _line_edited(path: Path, folder: Path, rng: Random) -> str:
    lines = _lines_of(path)
    at = rng.randrange(len(lines))
    line = json.loads(lines[at])
    what = _edit(line, rng)
    lines[at] = json.dumps(line) + "\n"
    path.write_text("".join(lines), encoding="utf-8")
    return _said(path, folder, f"line {at + 1} {what}: {lines[at][:300].rstrip()}")


def _edit(value: dict[str, Any], rng: Random) -> str:
    """Change, remove or spoil one field, however deep."""
    name = rng.choice(sorted(value))
    old = value[name]
    if isinstance(old, dict) and old and rng.random() < 0.7:
        return f"{name}.{_edit(old, rng)}"
    if isinstance(old, list) and old and isinstance(old[0], dict) and rng.random() < 0.7:
        return f"{name}[].{_edit(rng.choice(old), rng)}"
    if rng.random() < 0.25:
        del value[name]
        return f"{name} removed (was {old!r})"
    value[name] = rng.choice(_others(old, rng))
    return f"{name} {old!r} → {value[name]!r}"


def _others(old: object, rng: Random) -> list[object]:
    if isinstance(old, bool):
        return [not old, None, "yes"]
    if isinstance(old, int):
        return [old + 1, old - 1, -old, 0, old + rng.randrange(1, 1000), str(old), 1 << 70, None]
    if isinstance(old, str):
        words = ("ok", "fail", "info", "invoke", "send", "poll", "client", "harness", "main", "", "n2", "hw-0")
        return [*(word for word in words if word != old), old + "x", None, 5]
    if isinstance(old, list):
        return [[], old[1:], old[:-1], old + old[:1], None, "text"]
    return [0, "text", {}, [], [None]]


def _torn(path: Path, folder: Path, rng: Random) -> str:
    data = path.read_bytes()
    kept = rng.randrange(1, len(data)) if len(data) > 1 else 0
    path.write_bytes(data[:kept])
    return _said(path, folder, f"torn at {kept} of {len(data)} bytes")


def _bytes_changed(path: Path, folder: Path, rng: Random) -> str:
    data = bytearray(path.read_bytes())
    at = rng.randrange(min(len(data), BYTES_SEEN))
    old = data[at]
    data[at] = (old + rng.randrange(1, 256)) % 256
    path.write_bytes(data)
    return _said(path, folder, f"byte {at} {old} → {data[at]}")


def _emptied(path: Path, folder: Path) -> str:
    path.write_bytes(b"")
    return _said(path, folder, "emptied")


def _removed(path: Path, folder: Path) -> str:
    path.unlink()
    return _said(path, folder, "removed")


def _of_history(change: Callable[[Path, Path, Random], str]) -> Damage:
    return lambda folder, rng: change(folder / "history.jsonl", folder, rng)


def _of_events(change: Callable[[Path, Path, Random], str]) -> Damage:
    return lambda folder, rng: change(_event_log(folder, rng), folder, rng)


def _of_evidence(change: Callable[[Path, Path, Random], str]) -> Damage:
    return lambda folder, rng: change(_evidence_file(folder, rng), folder, rng)


def _garbage_line(folder: Path, rng: Random) -> str:
    path = folder / "history.jsonl"
    lines = _lines_of(path)
    at = rng.randrange(len(lines) + 1)
    text = rng.choice(("\0" * 40 + "\n", "null\n", "[]\n", "{}\n", '"x"\n', "5\n", "\ufffd\n", '{"index": 5}\n', "\n"))
    lines.insert(at, text)
    path.write_text("".join(lines), encoding="utf-8")
    return _said(path, folder, f"{text[:20]!r} before line {at + 1}")


def _tail_dropped(folder: Path, rng: Random) -> str:
    """Whole lines at the end, as of a copy that broke off."""
    path = folder / "history.jsonl"
    lines = _lines_of(path)
    kept = rng.randrange(1, len(lines))
    path.write_text("".join(lines[:kept]), encoding="utf-8")
    return _said(path, folder, f"{len(lines) - kept} lines of {len(lines)} dropped at the end")


def _operation_dropped(folder: Path, rng: Random) -> str:
    """An invocation and its completion, and the rest numbered anew: nothing in the lines shows it."""
    path = folder / "history.jsonl"
    lines = [json.loads(line) for line in _lines_of(path)]
    gone = rng.choice([line["index"] for line in lines if line["type"] == "invoke"])
    kept = [line for line in lines if gone not in (line["index"], line.get("invoke"))]
    new = {line["index"]: nth for nth, line in enumerate(kept)}
    for line in kept:
        line["index"] = new[line["index"]]
        for name in ("invoke", "resends"):
            if name in line:
                line[name] = new.get(line[name], -1)
    path.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")
    return _said(path, folder, f"operation {gone} dropped, the rest numbered anew")


def _edited_run(folder: Path, rng: Random) -> str:
    path = folder / "run.json"
    run = json.loads(path.read_text())
    what = _edit(run, rng)
    path.write_text(json.dumps(run))
    return f"run.json: {what}"


def _other_version(folder: Path, rng: Random) -> str:
    path = folder / "run.json"
    run = json.loads(path.read_text())
    run["schema"] = rng.choice((0, 2, "1", None, [1], 1.5))
    path.write_text(json.dumps(run))
    return f"run.json: schema {run['schema']!r}"


def _node_removed(folder: Path, rng: Random) -> str:
    node = rng.choice(sorted((folder / "evidence").iterdir()))
    shutil.rmtree(node)
    return f"evidence/{node.name}: removed"


def _nodes_exchanged(folder: Path, rng: Random) -> str:
    """The files of two brokers, each where those of the other belong."""
    names = sorted({path.parent for path in folder.glob("evidence/*/events.jsonl")})
    one, other = rng.sample(names, 2)
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)
    return f"evidence: {one.name} and {other.name} exchanged"


DAMAGES: dict[str, Damage] = {
    "history: line dropped": _of_history(_line_dropped),
    "history: lines swapped": _of_history(_lines_swapped),
    "history: line doubled": _of_history(_line_doubled),
    "history: line cut": _of_history(_line_cut),
    "history: line edited": _of_history(_line_edited),
    "history: torn": _of_history(_torn),
    "history: byte changed": _of_history(_bytes_changed),
    "history: garbage": _garbage_line,
    "history: tail dropped": _tail_dropped,
    "history: operation dropped": _operation_dropped,
    "history: emptied": lambda folder, _: _emptied(folder / "history.jsonl", folder),
    "history: removed": lambda folder, _: _removed(folder / "history.jsonl", folder),
    "run.json: edited": _edited_run,
    "run.json: other version": _other_version,
    "run.json: torn": lambda folder, rng: _torn(folder / "run.json", folder, rng),
    "run.json: removed": lambda folder, _: _removed(folder / "run.json", folder),
    "events: line dropped": _of_events(_line_dropped),
    "events: lines swapped": _of_events(_lines_swapped),
    "events: line doubled": _of_events(_line_doubled),
    "events: line cut": _of_events(_line_cut),
    "events: line edited": _of_events(_line_edited),
    "evidence: torn": _of_evidence(_torn),
    "evidence: byte changed": _of_evidence(_bytes_changed),
    "evidence: emptied": lambda folder, rng: _emptied(_evidence_file(folder, rng), folder),
    "evidence: removed": lambda folder, rng: _removed(_evidence_file(folder, rng), folder),
    "evidence: node removed": _node_removed,
    "evidence: nodes exchanged": _nodes_exchanged,
}

MAY_CHANGE_NOTHING = frozenset({"run.json: edited"})
"""Kinds after which a run may rightly be judged as before: much of run.json tells people something, and no checker."""


def damage(folder: Path, kind: str, rng: Random) -> str:
    """Do it; says what was done."""
    return DAMAGES[kind](folder, rng)


def kinds(rng: Random, count: int) -> Iterable[str]:
    """So many kinds, each as often as any other, but for one."""
    names = list(DAMAGES)
    for nth in range(count):
        if nth % len(names) == 0:
            rng.shuffle(names)
        yield names[nth % len(names)]
