"""Which dump a file gets, by its name. Whatever is wrong with a file is reported, and the next file follows."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Final

from broker.dump.index_dump import IndexOptions, OffsetIndexDump, TimeIndexDump
from broker.dump.log_dump import LogDump, LogOptions
from broker.dump.report import Report
from broker.dump.state_dump import TEXT_FILES, dump_producers, dump_text, dump_transactions
from broker.log.files.names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    parse_segment_file,
)

_SMALL_MAX: Final = 64 << 20
"""Bytes of a snapshot or a checkpoint: a million producers are less."""


@dataclass(frozen=True, slots=True)
class Options:
    """What to print of each kind of file."""

    log: LogOptions = field(default_factory=LogOptions)
    index: IndexOptions = field(default_factory=IndexOptions)


def dump_file(path: str, options: Options, report: Report) -> None:
    """Raises OutputFailed."""
    report.line(f"Dumping {path}")
    try:
        os.stat(path)
        _dump(path, options, report)
    except FileNotFoundError:
        report.problem(path, "does not exist")
    except OSError as error:
        report.problem(path, f"cannot be read: {error.strerror}")


def _fits(path: str, report: Report) -> bool:
    """Whether a file that is read at once may be what its name says. Raises OSError, also for a missing file."""
    size = os.stat(path).st_size
    if size > _SMALL_MAX:
        report.problem(path, f"{size} bytes, more than {_SMALL_MAX} are not believed")
    return size <= _SMALL_MAX


def _dump(path: str, options: Options, report: Report) -> None:
    name = os.path.basename(path)
    if name in TEXT_FILES:
        if _fits(path, report):
            dump_text(path, report)
        return
    found = parse_segment_file(name)
    if found is None:
        suffixes = f"{LOG_SUFFIX}, {INDEX_SUFFIX}, {TIME_INDEX_SUFFIX}, {SNAPSHOT_SUFFIX} or {TXN_INDEX_SUFFIX}"
        texts = ", ".join(sorted(TEXT_FILES))
        report.problem(path, f"is left out: a name must be 20 digits with {suffixes}, or one of {texts}")
        return
    base_offset, suffix = found
    if suffix == LOG_SUFFIX:
        LogDump(path, base_offset, options.log, report).run()
    elif suffix == INDEX_SUFFIX:
        OffsetIndexDump(path, base_offset, options.index, report).run()
    elif suffix == TIME_INDEX_SUFFIX:
        TimeIndexDump(path, base_offset, options.index, report).run()
    elif suffix == TXN_INDEX_SUFFIX:
        dump_transactions(path, report)
    elif _fits(path, report):
        dump_producers(path, report)
