"""Where a run's files stand: below a folder that this machine sees, or below a URI of a file system of Hadoop's.

Spark reads and writes both, by their addresses. What plain Python has to know of a file is asked for here, so that who
asks need not know which of the two it is. Knows nothing of what the files hold.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")
_LOCAL = "file"


class UnknownPlace(Exception):
    """A URI under which nothing can be found; the text names it and says why."""


class UnsharedFolder(UnknownPlace):
    """What a cluster's workers wrote is not in the folder that the driver sees; the text names it."""


class Files(Protocol):
    """What a file system is asked for, each thing by its URI. Raises UnknownPlace, which names it, where that cannot be
    answered: a file that is gone since the folder was listed, or that may not be read.
    """

    def sizes(self, folder: str) -> Mapping[str, int]:
        """Bytes of every file below, by its name there (`data/hw-0/0.log`); none where there is no such folder."""

    def size(self, file: str) -> int | None:
        """None where there is no such file."""

    def end(self, file: str, length: int) -> bytes:
        """Its last bytes, so many at most."""

    def sha256(self, file: str) -> str:
        """Of its bytes, in hexadecimal digits."""

    def lines(self, file: str, part: str) -> Iterator[bytes]:
        """Its lines that hold a text, in any order."""

    def fetch(self, file: str, to: Path) -> None:
        """Copy it to this machine."""

    def put(self, source: Path, file: str) -> None:
        """Copy it from this machine; what stood there is replaced. Who looks meanwhile sees what stood there, or
        nothing, or the whole of it.
        """

    def remove(self, place: str) -> None:
        """A file or folder with all that is in it; none is no error."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A file or folder that only its file system knows."""

    uri: str
    files: Files = field(compare=False, repr=False)

    def __truediv__(self, name: str) -> Stored:
        return Stored(f"{self.uri}/{name}", self.files)

    def __str__(self) -> str:
        return self.uri


Place = Path | Stored


def named(text: str) -> Path | str:
    """A path of this machine, or the URI of a place that is elsewhere. Raises UnknownPlace."""
    if not _SCHEME.match(text):
        return Path(text)
    parts = urlsplit(text)
    if parts.scheme.lower() != _LOCAL:
        if not parts.path.strip("/"):
            raise UnknownPlace(
                f"{text}: names a file system, and no folder there; should be that of a run:"
                f" {parts.scheme}://{parts.netloc}/runs/demo"
            )
        return text.rstrip("/")
    if parts.netloc not in ("", "localhost") or not parts.path:
        raise UnknownPlace(f"{text}: a file URI names no host, but a whole path: file:///srv/runs/demo")
    return Path(unquote(parts.path))


def address(place: Place) -> str:
    """URI of a file or folder for Spark. Hadoop takes it as it is, so nothing may be percent-encoded."""
    return place.uri if isinstance(place, Stored) else f"file://{place.absolute()}"


def is_file(place: Place) -> bool:
    return place.files.size(place.uri) is not None if isinstance(place, Stored) else place.is_file()


def is_folder(place: Place) -> bool:
    """A store of objects has no empty folder."""
    return bool(place.files.sizes(place.uri)) if isinstance(place, Stored) else place.is_dir()


def sizes_below(place: Place) -> Mapping[str, int]:
    """Bytes of every file below a folder, by its name there (`data/hw-0/0.log`)."""
    if isinstance(place, Stored):
        return place.files.sizes(place.uri)
    found = {}
    for folder, _, names in os.walk(place):
        for path in (Path(folder, name) for name in names):
            if path.is_file():
                found[path.relative_to(place).as_posix()] = path.stat().st_size
    return found


def size_of(file: Place) -> int:
    """In bytes; 0 where there is no such file."""
    if isinstance(file, Stored):
        return file.files.size(file.uri) or 0
    return file.stat().st_size if file.is_file() else 0


def end_of(file: Place, length: int) -> bytes:
    """Its last bytes, so many at most."""
    if isinstance(file, Stored):
        return file.files.end(file.uri, length)
    with file.open("rb") as opened:
        opened.seek(max(0, file.stat().st_size - length))
        return opened.read()


def lines_with(file: Place, part: str) -> Iterator[bytes]:
    """Its lines that hold a text, of ASCII; those of a place elsewhere in any order."""
    if isinstance(file, Stored):
        yield from file.files.lines(file.uri, part)
        return
    wanted = part.encode("ascii")
    with file.open("rb") as opened:
        yield from (line for line in opened if wanted in line)


def sha256_of(file: Place) -> str:
    """Of its bytes, in hexadecimal digits."""
    if isinstance(file, Stored):
        return file.files.sha256(file.uri)
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def put(source: Path, to: Place) -> None:
    """Copy a file of this machine to a place; what stood there is replaced. To itself: nothing."""
    if isinstance(to, Stored):
        to.files.put(source, to.uri)
    elif source != to:
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, to)


def remove(place: Place) -> None:
    """A file, or a folder with all that is in it; none is no error."""
    if isinstance(place, Stored):
        place.files.remove(place.uri)
    elif place.is_dir():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
