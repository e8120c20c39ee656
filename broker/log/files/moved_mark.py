"""The mark in a log's folder that its copy in another log dir is about to take its place.

`moved-to`: path of the copy's folder, `….<32 hex>-future`. It is durable before that folder gets the partition's name.
So a start that finds the partition in two dirs knows which of them is outdated; Kafka refuses to start then.
Source: none in Kafka (LogManager.replaceCurrentWithFutureLog, whose crash between two renames is left to the operator).
"""

from __future__ import annotations

import os
from collections.abc import Collection
from enum import Enum, auto

from broker.log.files.checkpoints import fsync_dir, read_mark, write_atomically
from broker.log.files.names import remove_if_there

MOVED_MARK = "moved-to"
_PATH_MAX = 4096


class Moved(Enum):
    """What the mark in a folder says of the log in there."""

    NOT = auto()
    """There is no mark, or the copy never took its place."""
    REPLACED = auto()
    """The copy took its place: this one is outdated."""
    UNKNOWN = auto()
    """The dir of the copy cannot be looked at."""


def leave(folder: str, future: str) -> None:
    """Durably. Raises OSError."""
    write_atomically(f"{folder}/{MOVED_MARK}", future + "\n")


def remove(folder: str) -> None:
    """Durably; nothing where there is none. Raises OSError."""
    if os.path.exists(f"{folder}/{MOVED_MARK}"):
        remove_if_there(f"{folder}/{MOVED_MARK}")
        fsync_dir(folder)


def read(folder: str) -> str:
    """The path of the copy, "" without a mark. Raises OSError."""
    return read_mark(f"{folder}/{MOVED_MARK}", _PATH_MAX, "nobody knows where")


def judge(folder: str, dirs: Collection[str]) -> Moved:
    """dirs: the log dirs that work. Raises OSError."""
    future = read(folder)
    if not future:
        return Moved.NOT
    if os.path.dirname(future) not in dirs:
        return Moved.UNKNOWN
    return Moved.NOT if os.path.isdir(future) else Moved.REPLACED
