"""Taking deleted files from the disk, off the loop: an unlink gives back every extent of a file before it returns.

That took 40 to 260 ms for a full segment in the page cache (1 GiB, ext4), and a deleted topic, or a retention check,
has thousands of them due at once, on all its replicas in the same moment. So each file is a job of its own on the
thread for deletions. No checkpoint, no swap and no shutdown waits for it: the next start recognises the remaining files
by their names and removes them.

Called on the loop, once everything that must come before is done there: the descriptors are closed (else the last close
frees the file), and no checkpoint names the log any more. The names are unique, whatever is made and deleted under the
old names meanwhile. Files that cannot be removed are logged and left to the next start.
Source: LocalLog.deleteSegmentFiles, UnifiedLog.delete, whose scheduler does it on a thread as well.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterable
from functools import partial

from broker.log.environment import Environment
from broker.log.files.names import remove_if_there

_logger = logging.getLogger(__name__)


def remove_files(environment: Environment, paths: Iterable[str]) -> None:
    """Remove what is there of these files."""
    for path in paths:
        environment.remove(partial(remove_if_there, path), partial(_report, path))


def remove_folder(environment: Environment, path: str) -> None:
    """Remove a folder with all that is in it, itself last: until then a start finds it and goes on."""
    names: list[str] = []

    def look() -> None:
        names.extend(os.listdir(path))

    def looked(error: OSError | None) -> None:
        if error is not None:
            _report(path, error)
            return
        for name in names:
            environment.remove(partial(_remove_entry, f"{path}/{name}"), partial(_report, f"{path}/{name}"))
        environment.remove(partial(os.rmdir, path), partial(_report, path))

    environment.remove(look, looked)


def _remove_entry(path: str) -> None:
    try:
        remove_if_there(path)
    except IsADirectoryError:
        shutil.rmtree(path)


def _report(path: str, error: OSError | None) -> None:
    if error is not None:
        _logger.warning("%s stays until the next start: %s", path, error)
