"""A process that runs out of descriptors, or has very many."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """The process gets so many more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    spare = [os.dup(2)]
    while spare[-1] < highest:
        spare.append(os.dup(2))
    resource.setrlimit(resource.RLIMIT_NOFILE, (spare[-1] + 1 + count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in spare:
            os.close(fd)


@contextmanager
def many_descriptors() -> Iterator[None]:
    """What the process opens gets a number that select() does not take."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    held = [os.dup(2)]
    try:
        while held[-1] < 1024:
            held.append(os.dup(2))
        yield
    finally:
        for fd in held:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
