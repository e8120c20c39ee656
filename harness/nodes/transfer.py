"""Files and folders as tar streams, for nodes that are reached through a pipe.

Decides: the mapping of cp -r semantics (source to exactly this target) onto tar. Must not know: what carries the
stream.
"""

from __future__ import annotations

import posixpath
import tarfile
from pathlib import Path
from typing import IO, cast


def pack(local: Path, remote: str, stream: IO[bytes], *, whole_path: bool = False) -> None:
    """Write `local` as a tar archive whose one entry is named like the last part of `remote`, or like all of it."""
    if not local.exists():
        raise FileNotFoundError(f"nothing to copy at {local}")
    with tarfile.open(fileobj=stream, mode="w|") as archive:
        path = remote.rstrip("/")
        archive.add(local, arcname=path.lstrip("/") if whole_path else posixpath.basename(path), filter=_plain)


def unpack(stream: IO[bytes], local: Path) -> None:
    """Write an archive with one top entry to `local`: that entry is `local` itself. Links and devices are left out."""
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            parts = Path(member.name).parts[1:]
            if ".." in parts:
                raise ValueError(f"the archive names {member.name!r}, outside of its folder")
            target = local.joinpath(*parts)
            if member.isdir():
                target.mkdir(parents=True, exist_ok=True)
            elif member.isfile():
                target.parent.mkdir(parents=True, exist_ok=True)
                content = cast(IO[bytes], archive.extractfile(member))
                with target.open("wb") as handle:
                    while block := content.read(1 << 20):
                        handle.write(block)
                target.chmod(member.mode & 0o777 | 0o600)


def extract_command(remote: str) -> list[str]:
    """What reads `pack`'s stream on the node."""
    folder = posixpath.dirname(remote.rstrip("/")) or "/"
    return ["sh", "-c", 'mkdir -p "$1" && exec tar -x -f - -C "$1"', "sh", folder]


def archive_command(remote: str) -> list[str]:
    """What writes `unpack`'s stream on the node; a log that grows meanwhile is no error."""
    folder, name = posixpath.split(remote.rstrip("/"))
    return ["tar", "-c", "-f", "-", "--warning=no-file-changed", "-C", folder or "/", "--", name]


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if "__pycache__" in member.name.split("/"):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member
