"""The ZooKeeper sessions that this data folder's broker opened, kept so that a restarted broker may end its old one.

A restart within the old session's time-out finds the broker's own ephemeral znodes still there. Ending the recorded
session removes exactly those. A *copy* of the folder must not have that power, so the record names the file it is
written in (kernel boot, device, inode), which no copy shares; a record that names another file is ignored.
All that it spares is the wait for the old session's end: a folder that fails costs that, not the broker, which may have
sound log dirs beside it. The caller holds the folder's lock.
"""

from __future__ import annotations

import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path

FILE_NAME = "zookeeper-session.json"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_MAX_SESSIONS = 16

_log = logging.getLogger("broker.zk")


@dataclass(frozen=True, slots=True)
class RecordedSession:
    """What is needed to end a session: its id, and the password that proves it ours."""

    session_id: int
    password: bytes


class SessionFile:
    """The record in one data folder."""

    def __init__(self, folder: Path, boot_id: str | None = None) -> None:
        self._path = folder / FILE_NAME
        self._boot_id = boot_id if boot_id is not None else _read_boot_id()

    def read(self) -> list[RecordedSession]:
        """Sessions recorded in this very file since the machine started, oldest first; else none."""
        try:
            with self._path.open("rb") as file:
                stat = os.fstat(file.fileno())
                fields = json.loads(file.read())
            identity = [self._boot_id, stat.st_dev, stat.st_ino]
            if fields["file"] != identity:
                _log.warning("%s was copied from elsewhere, or the machine restarted: not used", self._path)
                return []
            return [RecordedSession(int(s["id"]), bytes.fromhex(s["password"])) for s in fields["sessions"]]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            _log.warning("%s cannot be read (%r): not used", self._path, error)
            return []

    def write(self, sessions: list[RecordedSession]) -> None:
        """Replace the record, on disk too; the newest sessions are kept. The log says what cannot be written."""
        try:
            self._write(sessions)
        except OSError as error:
            _log.warning(
                "%s cannot be written (%s): a restart may have to wait for the end of this ZooKeeper session",
                self._path,
                error,
            )

    def _write(self, sessions: list[RecordedSession]) -> None:
        temporary = self._path.with_suffix(".tmp")
        temporary.unlink(missing_ok=True)
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", buffering=0) as file:
            stat = os.fstat(file.fileno())
            fields = {
                "file": [self._boot_id, stat.st_dev, stat.st_ino],
                "sessions": [{"id": s.session_id, "password": s.password.hex()} for s in sessions[-_MAX_SESSIONS:]],
            }
            content = memoryview(json.dumps(fields).encode())
            while content:
                content = content[file.write(content) :]
            os.fsync(file.fileno())
        temporary.rename(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _read_boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""
