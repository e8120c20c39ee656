"""Waiting for a system to come up, with a time limit and a reason."""

from __future__ import annotations

import time
from collections.abc import Callable

from harness.nodes.base import CommandFailed, Node

INTERVAL_S = 0.05


class SystemFailed(Exception):
    """A system under test did not start or did not get where it must be; the text names node, wait and log tail."""


def await_true(what: str, condition: Callable[[], bool], timeout_s: float) -> None:
    """Return once the condition holds; SystemFailed names `what` and the time when it does not."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            raise SystemFailed(f"{what}: not within {timeout_s:g} s")
        time.sleep(INTERVAL_S)


def await_daemon(node: Node, daemon: str, responds: Callable[[], bool], timeout_s: float) -> None:
    """Return once the daemon responds. SystemFailed, with its log's tail, when it ends before or stays silent."""
    deadline = time.monotonic() + timeout_s
    while not responds():
        if node.pid(daemon) is None:
            raise SystemFailed(f"node {node.name}: {daemon} ended before it responded; {log_tail(node, daemon)}")
        if time.monotonic() >= deadline:
            tail = log_tail(node, daemon)
            raise SystemFailed(f"node {node.name}: {daemon} gave no response within {timeout_s:g} s; {tail}")
        time.sleep(INTERVAL_S)


def log_tail(node: Node, daemon: str, size_bytes: int = 3000) -> str:
    """The end of the daemon's log, as one text."""
    path = f"{node.root}/logs/{daemon}.log"
    try:
        done = node.run(["tail", "-c", str(size_bytes), path], check=False)
    except CommandFailed as error:
        return f"its log cannot be read: {error}"
    return f"the end of {path}: {done.stdout.strip() or '(empty)'}"
