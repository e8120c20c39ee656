"""Whether a replica may have lost bytes that it had acknowledged, and the mark that says so until it is repaired.

Clean: the broker stopped in good order, or its process alone ended (kill -9 leaves the page cache), and the log is as
long as it was. Unclean: host or mount were lost, or the log is shorter than something remembers: what was flushed, what
was committed, or where it ended when the process did. A torn write that was never acknowledged lies above all of these
offsets.
The mark is a file in the partition's folder, so that a later clean shutdown does not hide an earlier unclean one. It is
removed when the replica leads or is in the ISR again: then it has every committed record. A log that is made anew for a
partition that is not new gets its mark first: nothing else would show that it lost records. Marks need no fsync of
their own while the broker runs: a power failure marks every log anyway; a clean stop syncs those that are left.
All of this is evidence on the disk itself, and a copy that was put back from a backup brings its old evidence along. So
each mark of a log dir names the registration (broker epoch) under which it was written, and ZooKeeper knows this
broker's last one.
Source: R12 and L6 of docs/guarantees.md; KIP-966 (unclean shutdown).
"""

from __future__ import annotations

import contextlib
import os

from broker.log.files import checkpoints
from broker.log.files.names import LOG_SUFFIX
from broker.model.ids import Offset
from broker.model.log_errors import CorruptLog

UNCLEAN_MARK = "unclean-stop"
_REASON_MAX = 500
_DAMAGED = "damaged: "
_HOST_LOST = "the host or the mount was lost, or nobody knows"


def unclean_reason(
    *,
    clean: bool,
    same_kernel: bool,
    leo: Offset,
    recovery_point: Offset,
    high_watermark: Offset,
    last_end: Offset | None,
) -> str:
    """Why bytes may be missing, "" when none are.

    clean: the mark of a clean stop was there. same_kernel, last_end: as `run_mark` says. recovery_point and
    high_watermark: as checkpointed before the stop, 0 where they were not.
    """
    if leo < recovery_point:
        return f"the log ends at {leo}, but everything below {recovery_point} had been flushed"
    if leo < high_watermark:
        why = "" if same_kernel else f"; {_HOST_LOST}"
        return f"the log ends at {leo}, but everything below {high_watermark} was committed{why}"
    if last_end is not None and leo < last_end:
        return f"the log ends at {leo}, but it reached {last_end} when the process ended"
    if not clean and not same_kernel:
        return f"what had not been flushed may be lost; {_HOST_LOST}"
    return ""


def is_shortened(reason: str) -> bool:
    """Whether a log with this reason lost its tail at most: after a clean stop (""), or a power failure.

    False where flushed bytes, or bytes that the page cache kept, are gone: the log may be an older copy that was put
    back.
    """
    return not reason or reason.endswith(_HOST_LOST)


def worse(earlier: str, latest: str) -> str:
    """The graver of two reasons: "" is the least, one that a power failure explains comes next."""
    return latest if not earlier or (is_shortened(earlier) and not is_shortened(latest)) else earlier


def older_copy_reason(left_under: int, last_registered: int | None) -> str:
    """Why a log dir is not as this broker left it last, "" when it is, or when nobody knows.

    left_under: the broker epoch in its mark, −1 where that says none. last_registered: this broker's last one before
    its present one, None where ZooKeeper does not know. Nothing is written to a log without a registration.
    """
    if last_registered is None or left_under == last_registered:
        return ""
    found = "by nobody knows whom" if left_under < 0 else f"under registration {left_under}"
    return f"the log dir was left {found}, but this broker's last registration was {last_registered}: an older copy?"


def read_mark(folder: str) -> str:
    """The reason of an earlier unclean stop that has not been repaired, "" for none."""
    return checkpoints.read_mark(f"{folder}/{UNCLEAN_MARK}", _REASON_MAX, "an earlier unclean stop")


def damage_reason(damage: CorruptLog) -> str:
    """The reason in the mark of a log that stays offline; `is_damaged` recognises it."""
    return f"{_DAMAGED}{damage}"


def is_damaged(folder: str) -> bool:
    """Whether this log was found damaged and has not been repaired since; no clean stop repairs it."""
    return read_mark(folder).startswith(_DAMAGED)


def mark_half_made(folder: str) -> None:
    """Mark a folder without a segment: one whose making was cut short, perhaps in the place of a log that was lost.

    Before it is made a log. A mark that is there stays. Raises OSError.
    """
    with os.scandir(folder) as entries:
        if any(entry.name.endswith(LOG_SUFFIX) for entry in entries):
            return
    if not read_mark(folder):
        leave_mark(folder, "its folder was there without a segment")


def leave_mark(folder: str, reason: str) -> None:
    """Raises OSError."""
    checkpoints.write_atomically(f"{folder}/{UNCLEAN_MARK}", reason[:_REASON_MAX] + "\n", sync=False)


def sync_mark(folder: str) -> None:
    """Make a mark survive a power failure; nothing where the folder was taken away. Raises OSError."""
    for path in (f"{folder}/{UNCLEAN_MARK}", folder):
        try:
            checkpoints.fsync_file(path)
        except FileNotFoundError:
            return


def remove_mark(folder: str) -> None:
    """Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{folder}/{UNCLEAN_MARK}")
