"""Whether a run's files are what they were when its record was complete, by the digests in run.json.

Decides what damage since then takes away: a reason for unknown per source. Lines that were changed may show what never
was, as lines that are missing may. Judges nothing. Source: docs/history-format.md, `recorded`.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import PurePosixPath

from checkers.history.run_info import RunInfo
from checkers.spark.places import Place, sha256_of, sizes_below

HISTORY = "history.jsonl"
_JUDGED = re.compile(r"events\.jsonl|data/.*(\.log|checkpoint)|(zookeeper|logs|logs-after)/.*", re.DOTALL)


def changed(run_dir: Place, info: RunInfo) -> tuple[bool, list[str]]:
    """(whether the history is not what was recorded, the nodes whose evidence is not)."""
    history = HISTORY in info.recorded and info.recorded[HISTORY] != sha256_of(run_dir / HISTORY)
    folders = {name: digest for name, digest in info.recorded.items() if name != HISTORY}
    return history, [PurePosixPath(name).name for name, digest in folders.items() if digest != _of_node(run_dir / name)]


def _of_node(folder: Place) -> str:
    names = sorted(name for name in sizes_below(folder) if _JUDGED.fullmatch(name))
    return hashlib.sha256("".join(f"{name}\0{sha256_of(folder / name)}\n" for name in names).encode()).hexdigest()
