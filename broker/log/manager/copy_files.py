"""What a start needs of a copy beside its records, before the copy may take its log's place.

Source: kafka LogManager (checkpointLogRecoveryOffsets, alterCheckpointDir), whose checkpoints have the lines of future
logs as well.
"""

from __future__ import annotations

from functools import partial

from broker.log.environment import Job
from broker.log.files import unclean_shutdown
from broker.log.files.checkpoints import fsync_dir
from broker.log.files.log_dir import LogDir
from broker.model.ids import Offset, TopicPartition


def jobs(
    topic_partition: TopicPartition, log_dir: LogDir, folder: str, high_watermark: Offset, unclean: str
) -> list[Job]:
    """Calls, good on any thread, that make it durable in the copy's dir, one after the other; each raises OSError.

    unclean: why the log may have lost records, "" where it has not.
    """
    return [
        log_dir.high_watermarks_job({topic_partition: high_watermark}),
        log_dir.log_starts_job(),
        log_dir.recovery_points_job(),
        log_dir.cleaner_offsets.job(),
        partial(_write_unclean, folder, unclean),
        partial(fsync_dir, log_dir.path),
    ]


def _write_unclean(folder: str, reason: str) -> None:
    """What is known of the log holds for its copy."""
    if reason:
        unclean_shutdown.leave_mark(folder, reason)
        unclean_shutdown.sync_mark(folder)
    else:
        unclean_shutdown.remove_mark(folder)
