"""Whether something failed for want of space, and on which device.

Decides what is said of it: what is full, before what was to be written. Must not know what a run writes.
"""

from __future__ import annotations

import errno
from pathlib import Path

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_MOUNTS = Path("/proc/self/mountinfo")


def lacking_room(error: BaseException) -> OSError | None:
    """The error among this one and its causes that says that a device, or a user's share of it, is full."""
    seen: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in seen:
        if isinstance(cause, OSError) and cause.errno in NO_ROOM:
            return cause
        seen.append(cause)
        cause = cause.__cause__
    return None


def said(error: BaseException, folder: Path) -> str:
    """What an error says; where it is for want of space, the device first. folder: of an error that names no file."""
    lacking = lacking_room(error)
    if lacking is None:
        return str(error)
    where = Path(lacking.filename) if isinstance(lacking.filename, str) else folder
    return f"no space left on {device_of(where)}: {error}"


def device_of(path: Path) -> str:
    """`/dev/sda1 (/data)`: what is mounted where this path is; the path itself where that cannot be found out."""
    try:
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return str(path)
    return mounted_at(mounts, path.absolute()) or str(path)


def mounted_at(mountinfo: str, path: Path) -> str | None:
    """The same of a text in the format of /proc/self/mountinfo (proc(5)). path: absolute."""
    found: tuple[Path, str] | None = None
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields, described = before.split(), after.split()
        if len(fields) < 5 or len(described) < 2:
            continue
        point = Path(_plain(fields[4]))
        # Of two on the same folder the later one hides the other.
        if path.is_relative_to(point) and (found is None or len(point.parts) >= len(found[0].parts)):
            found = point, _plain(described[1])
    return None if found is None else f"{found[1]} ({found[0]})"


def _plain(text: str) -> str:
    """Of a field in which spaces, tabs, line ends and backslashes stand as octal numbers."""
    for code in ("040", "011", "012", "134"):
        text = text.replace(f"\\{code}", chr(int(code, 8)))
    return text
