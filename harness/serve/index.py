"""The runs of a store, read again only where their files changed.

Decides what counts as a run's folder (store/<name>/<time>/ with a run.json or a history) and when what was read still
holds. Must not know how runs are shown. Invariant: what is not readable is listed as that, never left out.
"""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path
from typing import cast

from harness.serve.files import Refused, read
from harness.serve.summary import Summary, summary, unreadable

MOST_BYTES = 64 << 20
"""Of a JSON file that is read whole."""

_State = tuple[int, int, int] | None


class Index:
    """For any number of threads."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], tuple[tuple[_State, ...], Summary]] = {}

    def runs(self) -> list[Summary]:
        """All runs as they are now. A run whose files did not change costs a few `lstat`."""
        with self._lock:
            seen = {}
            for folder in _folders(self.store):
                for stamp in _folders(self.store / folder):
                    where = self.store / folder / stamp
                    states = tuple(_state(where / name) for name in ("run.json", "results.json", "history.jsonl"))
                    if states[0] is None and states[2] is None:
                        continue
                    known = self._known.get((folder, stamp))
                    if known is None or known[0] != states:
                        known = (states, self._read(folder, stamp, states))
                    seen[folder, stamp] = known
            self._known = seen
            return [one for _, one in seen.values()]

    def _read(self, folder: str, stamp: str, states: tuple[_State, ...]) -> Summary:
        try:
            run = self.json(folder, stamp, "run.json")
            results = None if states[1] is None else self.json(folder, stamp, "results.json")
        except Refused as error:
            return unreadable(folder, stamp, str(error))
        return summary(folder, stamp, run, results, None if states[2] is None else states[2][0] / 1e9)

    def json(self, folder: str, stamp: str, name: str) -> dict[str, object]:
        """A JSON object of a run. Raises Refused naming the file."""
        try:
            value = json.loads(read(self.store, (folder, stamp, name), MOST_BYTES))
        except Refused as error:
            raise Refused(f"{name}: {error}") from None
        except (ValueError, RecursionError):
            raise Refused(f"{name}: not JSON, or half written") from None
        if not isinstance(value, dict):
            raise Refused(f"{name}: not a JSON object")
        return cast(dict[str, object], value)


def _folders(parent: Path) -> list[str]:
    """Names of the folders in one; `latest` and other links are not followed."""
    try:
        with os.scandir(parent) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _state(path: Path) -> _State:
    try:
        found = path.lstat()
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino) if stat.S_ISREG(found.st_mode) else (0, 0, found.st_ino)
