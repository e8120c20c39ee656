"""Where a run's files stand: store/<name>/<time>/, with `latest` links (docs/history-format.md).

Decides names and how files are replaced. Must not know what they mean. Invariant: run.json is replaced whole, so a
reader never sees half of one; a link always names a folder that exists.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import cast
from urllib.parse import unquote, urlsplit

from harness.runs.room import said

DEFAULT_STORE = Path("store")


class StoreError(Exception):
    """A folder that is not a run's, or cannot be written; the text says which and what is missing."""


@dataclass(frozen=True, slots=True)
class RunStore:
    """One run's folder."""

    path: Path

    @property
    def run_json(self) -> Path:
        """What is known of the run beside its operations; `schema` is its version."""
        return self.path / "run.json"

    @property
    def run_toml(self) -> Path:
        """The run file as it was used, overrides applied."""
        return self.path / "run.toml"

    @property
    def history(self) -> Path:
        """One JSON line for each event of the run."""
        return self.path / "history.jsonl"

    @property
    def evidence(self) -> Path:
        """A folder for each node."""
        return self.path / "evidence"

    @property
    def results(self) -> Path:
        """The verdict (docs/results-format.md); absent until the run is judged."""
        return self.path / "results.json"

    @property
    def report(self) -> Path:
        """The page for people; absent until the run is judged."""
        return self.path / "report.html"

    @property
    def junit(self) -> Path:
        """The verdict for CI systems; absent until the run is judged."""
        return self.path / "junit.xml"

    @property
    def online(self) -> Path:
        """What the judge of a run that goes on keeps meanwhile; absent before and after."""
        return self.path / "online"

    def write_run(self, run: Mapping[str, object]) -> None:
        """Replace run.json."""
        write_json(self.run_json, run)

    def read_run(self) -> dict[str, object]:
        """run.json as it is now. Raises StoreError."""
        return read_json(self.run_json)

    def update_run(self, **changes: object) -> None:
        """Change some keys of run.json."""
        self.write_run({**self.read_run(), **changes})


def create(root: Path, name: str, now: datetime | None = None) -> RunStore:
    """Make a new run's folder and point the links at it. Two runs of one millisecond get two folders."""
    absolute = (root / name).absolute()
    if "," in str(absolute):
        raise StoreError(f"{absolute}: a comma in the path: brokers keep their logs there, and log.dirs is a list")

    def make(folder: Path, stamp: str) -> Path:
        path = _make_unique(folder, stamp)
        (path / "evidence").mkdir()
        return path

    return _linked(root, name, now, make)


def create_whole(root: Path, name: str, fill: Callable[[Path], None]) -> RunStore:
    """Make a run's folder that is there at once, with all that `fill` writes, or not at all. Raises StoreError."""

    def make(folder: Path, stamp: str) -> Path:
        part = folder / f".{stamp}.part"
        part.mkdir()
        try:
            fill(part)
            path = _make_unique(folder, stamp)
            # An empty folder is replaced.
            os.replace(part, path)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        return path

    return _linked(root, name, None, make)


def _linked(root: Path, name: str, now: datetime | None, make: Callable[[Path, str], Path]) -> RunStore:
    """The run's folder that `make(folder, stamp)` makes, once the links point at it. Raises StoreError."""
    stamp = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%S.%f")[:-3] + "Z"
    folder = root / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = make(folder, stamp)
        _link(folder / "latest", path.name)
        _link(root / "latest", f"{name}/{path.name}")
    except OSError as error:
        raise StoreError(said(error, folder) + f"; a run's folder cannot be made in {folder}") from None
    return RunStore(path.resolve())


def _make_unique(folder: Path, stamp: str) -> Path:
    suffix = 0
    while True:
        path = folder / (stamp if suffix == 0 else f"{stamp}-{suffix}")
        try:
            path.mkdir()
            return path
        except FileExistsError:
            suffix += 1


def local_path(text: str) -> Path | None:
    """A run's folder as a command names it: a path, or a URI of one (`file:///…`); None for a URI of a place elsewhere.
    Raises StoreError.
    """
    if not re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*://", text):
        return Path(text)
    parts = urlsplit(text)
    if parts.scheme != "file":
        if not parts.path.strip("/"):
            raise StoreError(
                f"{text}: names a file system, and no folder there; should be that of a run:"
                f" {parts.scheme}://{parts.netloc}/runs/demo"
            )
        return None
    if parts.netloc not in ("", "localhost") or not parts.path:
        raise StoreError(f"{text}: a file URI names no host, but a whole path: file:///srv/runs/demo")
    return Path(unquote(parts.path))


def open_run(path: Path) -> RunStore:
    """An existing run's folder (a link to one will do)."""
    store = RunStore(path.resolve())
    if not store.history.is_file():
        raise StoreError(f"{path}: not a run's folder: it holds no history.jsonl")
    if not store.run_json.is_file():
        raise StoreError(f"{path}: not a run's folder: it holds no run.json")
    return store


def write_json(path: Path, value: Mapping[str, object]) -> None:
    """Replace a file whole, keys sorted."""
    part = path.with_name(path.name + ".part")
    try:
        text = json.dumps(value, indent=1, sort_keys=True)
    except RecursionError:
        raise StoreError(f"{path}: cannot be written anew: brackets in it are nested too deeply") from None
    part.write_text(text + "\n", encoding="utf-8")
    os.replace(part, path)


def read_json(path: Path) -> dict[str, object]:
    """A JSON object. Raises StoreError naming the file."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: cannot be read: {error}") from None
    except RecursionError:
        raise StoreError(f"{path}: cannot be read: brackets are nested too deeply") from None
    if not isinstance(value, dict):
        raise StoreError(f"{path}: not a JSON object")
    return cast(dict[str, object], value)


def _link(link: Path, target: str) -> None:
    part = link.with_name(link.name + ".part")
    part.unlink(missing_ok=True)
    part.symlink_to(target)
    os.replace(part, link)
