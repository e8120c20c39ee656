"""Runs commands by an engine's exec, and gets all that they print.

An engine under load may say that a command ended well and give nothing of what it printed, or the beginning: the stream
ends beside the command, not after it (moby issue 27289, docker-py issue 2042). So what a command prints is kept in the
container's memory until it was read to its end, and is read again where the end is missing. The command itself runs
once. Must not know what is run, nor by which library.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from harness.nodes.base import CommandFailed

MEMORY = "/dev/shm"
"""A folder of the container that its files in memory are in."""
_TRIES = 5
# The last thing on both streams is the kept output's own name.
_READ = 'cat "$kept.out"; printf %s "$kept"; cat "$kept.err" >&2; printf %s "$kept" >&2'
_KEEP = 'old=$1; kept=$2; shift 2; rm -f $old; "$@" > "$kept.out" 2> "$kept.err"; code=$?; ' + _READ + "; exit $code"
_AGAIN = 'kept=$1; [ -e "$kept.err" ] || exit 1; ' + _READ


class Ended(NamedTuple):
    """A command's exit code, and what it printed."""

    code: int
    out: bytes
    err: bytes


class Commands:
    """Those of one container. Threads may share it."""

    def __init__(self, execute: Callable[[Sequence[str]], Ended]) -> None:
        """execute: runs a command in the container, and may lose the end of what it prints."""
        self._execute = execute
        self._old: deque[str] = deque()

    def run(self, command: Sequence[str], what: str) -> Ended:
        """Run it once. what: for the error, "node n1: ls /". Raises CommandFailed where its output cannot be had."""
        kept = f"{MEMORY}/highwater-{uuid.uuid4().hex}"
        old = [self._old.popleft() for _ in range(len(self._old))]
        files = " ".join(f"{name}.out {name}.err" for name in old)
        code, *printed = self._execute(["sh", "-c", _KEEP, "sh", files, kept, *command])
        end = kept.encode()
        for _ in range(_TRIES):
            if all(stream.endswith(end) for stream in printed):
                self._old.append(kept)
                out, err = (stream.removesuffix(end) for stream in printed)
                return Ended(code, out, err)
            found, *printed = self._execute(["sh", "-c", _AGAIN, "sh", kept])
            if found != 0:
                raise CommandFailed(f"{what} exited {code}; what it printed is gone with the container's memory")
        raise CommandFailed(f"{what} exited {code}; the engine lost what it printed, {_TRIES} times")
