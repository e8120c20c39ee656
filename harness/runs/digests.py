"""What a run's folder held when its record was complete, as digests in run.json: damage done later shows.

Decides what is digested (docs/history-format.md, `recorded`): the history, and of each node all files that a verdict
rests on. The checkers work the same digests out anew. Must not know what the files mean.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from harness.runs.store import RunStore

JUDGED = ("events.jsonl", "data/**/*.log", "data/**/*checkpoint", "zookeeper/**/*", "logs/**/*", "logs-after/**/*")
"""Files of a node, as patterns below its folder; indexes can be made anew, and nothing is judged by them."""


def digests(store: RunStore) -> dict[str, str]:
    """Name of the history, and of each node's folder → SHA-256, in hex. Raises OSError."""
    found = {store.history.name: _of_file(store.history)}
    for node in sorted(path for path in store.evidence.iterdir() if path.is_dir()):
        found[f"{store.evidence.name}/{node.name}"] = of_node(node)
    return found


def of_node(folder: Path) -> str:
    """Of the lines `<path>\\0<SHA-256 of the file>`, in the order of the paths."""
    files = {path for pattern in JUDGED for path in folder.glob(pattern) if path.is_file()}
    named = sorted((path.relative_to(folder).as_posix(), path) for path in files)
    return hashlib.sha256("".join(f"{name}\0{_of_file(path)}\n" for name, path in named).encode()).hexdigest()


def _of_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
