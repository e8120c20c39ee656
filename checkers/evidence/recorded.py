"""Whether a run's files are what they were when its record was complete, by the digests in run.json.

Decides what damage since then takes away: a reason for unknown per source. Lines that were changed may show what never
was, as lines that are missing may. Judges nothing. Source: docs/history-format.md, `recorded`.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from checkers.history.run_info import RunInfo

HISTORY = "history.jsonl"
JUDGED = ("events.jsonl", "data/**/*.log", "data/**/*checkpoint", "zookeeper/**/*", "logs/**/*", "logs-after/**/*")


def changed(run_dir: Path, info: RunInfo) -> tuple[bool, list[str]]:
    """(whether the history is not what was recorded, the nodes whose evidence is not)."""
    history = HISTORY in info.recorded and info.recorded[HISTORY] != _of_file(run_dir / HISTORY)
    folders = {name: digest for name, digest in info.recorded.items() if name != HISTORY}
    return history, [Path(name).name for name, digest in folders.items() if digest != _of_node(run_dir / name)]


def _of_node(folder: Path) -> str:
    files = {path for pattern in JUDGED for path in folder.glob(pattern) if path.is_file()}
    named = sorted((path.relative_to(folder).as_posix(), path) for path in files)
    return hashlib.sha256("".join(f"{name}\0{_of_file(path)}\n" for name, path in named).encode()).hexdigest()


def _of_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
