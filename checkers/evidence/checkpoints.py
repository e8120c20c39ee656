"""Checkpoint files of a replica's data folder: leader epochs, high watermarks, recovery points, log starts.

Kafka's text form: version, number of entries, one entry per line. A file that does not keep to it is a row with
`problem`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from checkers.evidence.segments import MOST_OFFSET

_MOST_NUMBER = (1 << 31) - 1
_BROKER_FILES = {
    "replication-offset-checkpoint": "high-watermark",
    "recovery-point-offset-checkpoint": "recovery-point",
    "log-start-offset-checkpoint": "log-start",
}


def read_checkpoints(node: str, data: Path) -> list[dict[str, Any]]:
    """Rows of schema.CHECKPOINT for one data folder (checkpoints) and its partition folders (epochs)."""
    rows: list[dict[str, Any]] = []
    for file, kind in _BROKER_FILES.items():
        path = data / file
        if path.exists():
            rows += [
                _row(node, kind, f"{parts[0]}-{parts[1]}", nth, None, int(parts[2]))
                for nth, parts in _entries(path, 3, rows, node, kind, None)
            ]
    for folder in sorted(path for path in data.iterdir() if path.is_dir()):
        path = folder / "leader-epoch-checkpoint"
        if path.exists():
            rows += [
                _row(node, "epoch", folder.name, nth, int(parts[0]), int(parts[1]))
                for nth, parts in _entries(path, 2, rows, node, "epoch", folder.name)
            ]
    return rows


def _entries(
    path: Path, fields: int, rows: list[dict[str, Any]], node: str, kind: str, partition: str | None
) -> list[tuple[int, list[str]]]:
    try:
        lines = path.read_text(encoding="ascii").splitlines()
        if lines[0].strip() != "0":
            raise ValueError(f"version {lines[0]!r}, should be 0")
        count = int(lines[1])
        entries = [line.split(" ") for line in lines[2:] if line.strip()]
        if len(entries) != count:
            raise ValueError(f"{len(entries)} entries, its second line says {count}")
        for entry in entries:
            if len(entry) != fields:
                raise ValueError(f"entry {' '.join(entry)!r} has {len(entry)} fields, should be {fields}")
            whole, offset = (int(number) for number in entry[-2:])
            if abs(whole) > _MOST_NUMBER or abs(offset) > MOST_OFFSET:
                raise ValueError(f"entry {' '.join(entry)!r} has a number that no partition, epoch or log has")
    except (ValueError, IndexError) as error:
        rows.append({**_row(node, kind, partition, 0, None, None), "problem": f"{path.name}: {error}"})
        return []
    return list(enumerate(entries))


def _row(node: str, kind: str, p: str | None, position: int, epoch: int | None, offset: int | None) -> dict[str, Any]:
    return {
        "node": node,
        "kind": kind,
        "p": p,
        "position": position,
        "epoch": epoch,
        "offset": offset,
        "problem": None,
    }
