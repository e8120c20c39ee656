"""How many calls an action makes on this thread, and of which system calls: a cost that no other process disturbs."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from types import CodeType, FrameType

_OS = {"posix", "nt"}


class Calls:
    """Python calls by code object, calls of `os` by name, other calls into C together."""

    def __init__(self) -> None:
        self.python: Counter[CodeType] = Counter()
        self.system: Counter[str] = Counter()
        self.c = 0

    @property
    def total(self) -> int:
        return self.python.total() + self.system.total() + self.c

    def during(self, action: Callable[[], object]) -> Calls:
        def note(frame: FrameType, event: str, called: object) -> None:
            if event == "call":
                self.python[frame.f_code] += 1
            elif event == "c_call":
                if getattr(called, "__module__", None) in _OS:
                    self.system[getattr(called, "__name__", "?")] += 1
                else:
                    self.c += 1

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            action()
        finally:
            sys.setprofile(before)
        return self

    def of(self, *files: str) -> list[str]:
        """Functions called that stand in these files."""
        return [code.co_qualname for code in self.python if code.co_filename.endswith(files)]
