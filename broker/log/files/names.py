"""Names of the files and folders of logs, and nothing else. Source: kafka LogFileUtils, LocalLog."""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from collections.abc import Sequence

from broker.model.ids import Offset, TopicPartition

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
DELETED_SUFFIX = ".deleted"
SWAP_SUFFIX = ".swap"
CLEANED_SUFFIX = ".cleaned"
SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
_SEGMENT_SUFFIXES = frozenset({*SUFFIXES, SNAPSHOT_SUFFIX})

DELETE_DIR_SUFFIX = "-delete"
STRAY_DIR_SUFFIX = "-stray"
FUTURE_DIR_SUFFIX = "-future"
_NAME_MAX = 255

_PARTITION_DIR = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,249})-(?P<partition>\d{1,10})")
_SET_ASIDE_DIR = re.compile(r".+-\d+\.[0-9a-f]{32}-(delete|stray)")
_FUTURE_DIR = re.compile(r"(?P<partition>.+-\d+)\.[0-9a-f]{32}-future")
_DELETED_FILE = re.compile(r".+\.[0-9a-f]{32}\.deleted", re.DOTALL)
_OFFSET_DIGITS = 20


def segment_path(directory: str, base_offset: Offset, suffix: str) -> str:
    """`directory/00000000000000000042.log`: the base offset in 20 digits, as Kafka names segments and indexes."""
    return f"{directory}/{base_offset:020d}{suffix}"


def parse_segment_file(name: str) -> tuple[Offset, str] | None:
    """(base offset, suffix with its dot) of `00000000000000000042.log` and its like."""
    digits, suffix = name[:_OFFSET_DIGITS], name[_OFFSET_DIGITS:]
    if suffix in _SEGMENT_SUFFIXES and len(digits) == _OFFSET_DIGITS and digits.isdecimal() and digits.isascii():
        return int(digits), suffix
    return None


def split_names(names: Sequence[str]) -> tuple[set[str], list[str]]:
    """The stems of the `.log` files (their 20 digits), and all names but those of a segment's own three files.

    In few steps per name: a start does this for every log.
    """
    stems = {name[:_OFFSET_DIGITS] for name in names if name.endswith(LOG_SUFFIX) and parse_segment_file(name)}
    own = {stem + suffix for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX) for stem in stems}
    return stems, [name for name in names if name not in own]


def parse_partition_dir(name: str) -> TopicPartition | None:
    """`topic-3` as a partition; None for a name that no live partition's folder has."""
    match = _PARTITION_DIR.fullmatch(name)
    return TopicPartition(match["topic"], int(match["partition"])) if match else None


def is_deleted_dir(name: str) -> bool:
    """Whether a folder was renamed to be deleted (`topic-3.<uuid>-delete`)."""
    return name.endswith(DELETE_DIR_SUFFIX) and _SET_ASIDE_DIR.fullmatch(name) is not None


def is_stray_dir(name: str) -> bool:
    """Whether a folder was set aside because no topic of the cluster has its log (`topic-3.<uuid>-stray`)."""
    return name.endswith(STRAY_DIR_SUFFIX) and _SET_ASIDE_DIR.fullmatch(name) is not None


def parse_set_aside_dir(name: str) -> TopicPartition | None:
    """The partition of a folder renamed for deletion or as a stray; None for others, and where the topic was cut."""
    if _SET_ASIDE_DIR.fullmatch(name) is None or len(name) >= _NAME_MAX:
        return None
    return parse_partition_dir(name.rpartition(".")[0])


def deleted_dir_name(topic_partition: TopicPartition) -> str:
    """A fresh `<topic>-<partition>.<32 hex>-delete`; the topic is cut where the name would pass 255 bytes."""
    return _set_aside_dir_name(topic_partition, DELETE_DIR_SUFFIX)


def stray_dir_name(topic_partition: TopicPartition) -> str:
    """The same with `-stray`: the broker never removes it."""
    return _set_aside_dir_name(topic_partition, STRAY_DIR_SUFFIX)


def _set_aside_dir_name(topic_partition: TopicPartition, suffix: str) -> str:
    ending = f"-{topic_partition.partition}.{uuid.uuid4().hex}{suffix}"
    return topic_partition.topic[: _NAME_MAX - len(ending)] + ending


def future_dir_name(topic_partition: TopicPartition) -> str:
    """A fresh `<topic>-<partition>.<32 hex>-future`: a copy on its way into another log dir. Never cut, as in Kafka."""
    return f"{topic_partition}.{uuid.uuid4().hex}{FUTURE_DIR_SUFFIX}"


def parse_future_dir(name: str) -> TopicPartition | None:
    """The partition whose copy a folder holds; None for other folders."""
    match = _FUTURE_DIR.fullmatch(name) if name.endswith(FUTURE_DIR_SUFFIX) else None
    return parse_partition_dir(match["partition"]) if match else None


def set_aside(path: str) -> str:
    """Give a `….deleted` file a unique name, `….<32 hex>.deleted`; returns it, also when there is no such file.

    So a later removal by this name removes no other file: the same segment may be made and deleted again meanwhile.
    Raises OSError.
    """
    if _DELETED_FILE.fullmatch(path):
        return path
    aside = f"{path.removesuffix(DELETED_SUFFIX)}.{uuid.uuid4().hex}{DELETED_SUFFIX}"
    with contextlib.suppress(FileNotFoundError):
        os.rename(path, aside)
    return aside


def hidden_base(name: str) -> Offset | None:
    """Base offset of a segment by the name of its `.log` once that is hidden, set aside or not."""
    stem = name[: _OFFSET_DIGITS + len(LOG_SUFFIX)]
    found = parse_segment_file(stem) if name.endswith(DELETED_SUFFIX) and stem.endswith(LOG_SUFFIX) else None
    return found[0] if found is not None else None


def remove_if_there(path: str) -> None:
    """Delete a file. Raises OSError, but not where it is gone already."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def discard_cleaned(directory: str, base_offset: Offset) -> None:
    """Remove a cleaned segment that is not wanted."""
    for suffix in SUFFIXES:
        remove_if_there(segment_path(directory, base_offset, suffix) + CLEANED_SUFFIX)
