"""The manifest of a run: what `highwater heal` must remove should the run die without doing it.

Decides: where manifests lie, how their owner is known to be dead. Must not know: how things are removed (heal).
Invariant: written before the first thing is made, removed after the last is gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.nodes.sandbox import inside_sandbox, start_ticks

_UNFINISHED_S = 600.0
"""Longer than any disk takes to write a manifest."""


def state_folder() -> Path:
    """`$XDG_STATE_HOME/highwater`, by default `~/.local/state/highwater`."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "highwater"


def boot_id() -> str:
    """Changes with each boot of this kernel: pids and start times of another boot mean nothing."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


class Manifest:
    """One run's file under `runs/`. `details` may grow by `update` while the nodes are made."""

    def __init__(
        self, kind: str, run_dir: Path, folders: Sequence[str], *, owner: tuple[int, int] | None = None
    ) -> None:
        """folders: local folders to remove. owner: (pid, start ticks) outside of a sandbox, by default this process."""
        self.id = f"{kind}-{uuid.uuid4().hex[:12]}"
        pid, start = owner if owner is not None else (os.getpid(), start_ticks("self"))
        self.content: dict[str, Any] = {
            "id": self.id,
            "kind": kind,
            "run_dir": str(run_dir),
            "folders": list(folders),
            "owner": {"pid": pid, "start_ticks": start, "boot_id": boot_id()},
        }
        self._file = state_folder() / "runs" / f"{self.id}.json"

    def exists(self) -> bool:
        """Whether it is written: there may be something to clean up."""
        return self._file.exists()

    def write(self) -> None:
        """Write it, before anything that it names is made."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        partial = self._file.with_suffix(".new")
        partial.write_text(json.dumps(self.content, indent=1))
        with partial.open() as handle:
            os.fsync(handle.fileno())
        partial.rename(self._file)

    def update(self, details: Mapping[str, Any]) -> None:
        """Add what is about to be made, before it is."""
        self.content.update(details)
        self.write()

    def remove(self) -> None:
        """Remove it, once nothing is left of what it names."""
        self._file.unlink(missing_ok=True)


def forget_unfinished() -> None:
    """Remove what a process left of a manifest that it was killed in the middle of: what that was to name was not made.
    Who may still be writing is let be.
    """
    for file in (state_folder() / "runs").glob("*.new"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - file.stat().st_mtime > _UNFINISHED_S:
                file.unlink()


def owner_alive(content: Mapping[str, Any]) -> bool:
    """True when the process that wrote the manifest still runs, or when that cannot be seen from here."""
    owner = content["owner"]
    if owner["boot_id"] != boot_id():
        return False
    if inside_sandbox():
        # Owners are known by their pids outside.
        return True
    try:
        return start_ticks(int(owner["pid"])) == int(owner["start_ticks"])
    except OSError:
        return False


def manifests() -> Iterator[tuple[Path, dict[str, Any]]]:
    """All manifests, those of live runs included; a file that cannot be read is an error that names it."""
    for file in sorted((state_folder() / "runs").glob("*.json")):
        try:
            content = json.loads(file.read_text())
        except ValueError as error:
            raise ValueError(f"{file}: not a manifest ({error}); remove it by hand") from error
        yield file, content
