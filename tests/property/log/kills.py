"""Kills before any file system call: nothing of a process is left then but what it had written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

_CALLS = (
    "open",
    "write",
    "pwrite",
    "pwritev",
    "ftruncate",
    "rename",
    "replace",
    "unlink",
    "mkdir",
    "fsync",
    "fdatasync",
)


class Killed(BaseException):
    """The process ends here."""


@contextmanager
def killed_before_call(number: int) -> Iterator[list[int]]:
    """Raise Killed at the call with this number, and at all that follow: nobody cleans up after a kill."""
    count = [0]
    real = {name: getattr(os, name) for name in _CALLS}

    def wrap(name: str) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            count[0] += 1
            if count[0] >= number:
                raise Killed
            return real[name](*args, **kwargs)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in _CALLS:
            patch.setattr(os, name, wrap(name))
        yield count


class Attempt:
    """number: of the call before which this one is killed. finished: it came to its end."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.finished = False

    @contextmanager
    def killed(self) -> Iterator[None]:
        """Kill what is done in here, or let it finish."""
        with killed_before_call(self.number):
            try:
                yield
                self.finished = True
            except Killed:
                pass


def attempts(first: int = 1) -> Iterator[Attempt]:
    """Killed before one call more each, until one finishes."""
    attempt = Attempt(first)
    yield attempt
    while not attempt.finished:
        attempt = Attempt(attempt.number + 1)
        yield attempt
