"""Copies of what a node's daemons wrote, for the checkers.

Decides what is copied, and in which order. Evidence of a broker is copied while it runs: its log folders first and its
event log last. The event log is written before any effect is visible, so its later copy names, for every record in the
earlier copy of the segments, who appended it and when; truncations and appends after the folders were copied are in the
event log only. What a broker logs after that, in the rotation and when it is stopped, is copied once more at the end.
Invariant: evidence/<node> is there whole, or not at all.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from harness.nodes.base import CommandFailed, Node
from harness.systems.highwater.configuration import data_folder, event_log_path

COPY_TRIES = 12
PAUSE_S = 0.5
"""Between tries: what a cleaning has replaced is deleted a while after it, and then it is quiet."""


def collect_broker(node: Node, folder: Path) -> None:
    """Copy what a broker wrote; its event log last, see above."""
    node.get(data_folder(node), folder / "data")
    node.get(f"{node.root}/logs", folder / "logs")
    node.get(f"{node.root}/server.properties", folder / "server.properties")
    node.get(event_log_path(node), folder / "events.jsonl")


def logs_after(node: Node, evidence: Path) -> tuple[str, str] | None:
    """Copy a node's own logs to evidence/<node>/logs-after; (node, why) when that failed."""
    try:
        node.get(f"{node.root}/logs", evidence / node.name / "logs-after")
    except (OSError, shutil.Error, CommandFailed) as error:
        return node.name, f"{type(error).__name__}: {error}"
    return None


def collected(
    node: Node, evidence: Path, collect: Callable[[Node, Path], None], sleep: Callable[[float], None] = time.sleep
) -> tuple[str, str | None]:
    """(node, None or why not). `evidence/<node>` is there once it is whole; `<node>.part` is what the last attempt
    copied.
    """
    part = evidence / f"{node.name}.part"
    for tried in range(COPY_TRIES):
        if tried:
            sleep(PAUSE_S)
        try:
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)
            collect(node, part)
            part.rename(evidence / node.name)
            return node.name, None
        except (OSError, shutil.Error, CommandFailed) as error:
            # A running broker renames checkpoints over each other, and deletes what it has cleaned: a copy in the
            # middle of that is made again.
            failed = f"{type(error).__name__}: {error}"
    return node.name, failed
