"""Power fails anywhere in a move between log dirs, on a disk that keeps what was synced: what was durable is there."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
from collections import deque
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.log.environment import Done, Environment, Job, run_inline
from tests.property.log.log_tools import TP, Clock, folder, kill, read_all
from tests.property.log.lossy_disk import LossyDisk, PowerCut, _Folder
from tests.property.log.moved_logs import SLICE, Life, opened
from tests.support.examples import examples

pytestmark = pytest.mark.guarantee("L6")


class RenamedFolders(LossyDisk):
    """Folders below `root` are renamed, too: each is known by its inode."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self._known: dict[int, _Folder] = {}

    def _mkdir(self, path: str, mode: int = 0o777) -> None:
        super()._mkdir(path, mode)
        self._known[os.stat(path).st_ino] = self._folders[path]

    def _rename(self, old: str, new: str) -> None:
        super()._rename(old, new)
        known = self._folders.pop(old, None)
        if known is not None:
            self._folders[new] = known
            self._files.pop(os.stat(new).st_ino)
            for fd, path in self._open.items():
                if path == old or path.startswith(f"{old}/"):
                    self._open[fd] = new + path.removeprefix(old)

    _replace = _rename

    def cut(self, rng: random.Random, target: str) -> None:
        self._put(self._folders[self.root], Path(target), rng)

    def _put(self, known: _Folder, place: Path, rng: random.Random) -> None:
        place.mkdir(parents=True, exist_ok=True)
        names = dict(known.durable)
        for change in known.since[: rng.randint(0, len(known.since))]:
            for name, inode in change:
                if inode is None:
                    names.pop(name, None)
                else:
                    names[name] = inode
        for name, inode in names.items():
            if inode in self._known:
                self._put(self._known[inode], place / name, rng)
            elif inode in self._files:
                (place / name).write_bytes(self._content(self._files[inode], rng))


class LateWork(Clock):
    """Work in the background is often done later, in its order."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(now=1e6)
        self._rng = rng
        self._waiting: deque[tuple[Job, Done]] = deque()

    def environment(self) -> Environment:
        return replace(super().environment(), background=self._later)

    def _later(self, job: Job, done: Done) -> None:
        self._waiting.append((job, done))
        if self._rng.random() < 0.5:
            self.catch_up()

    def catch_up(self) -> None:
        while self._waiting:
            run_inline(*self._waiting.popleft())


class Run:
    """A log that moves to and fro, and what of it must survive. durable: all below this offset."""

    def __init__(self, path: str, seed: int) -> None:
        self.rng = random.Random(seed)
        self.path = path
        self.dirs = [f"{path}/a", f"{path}/b"]
        self.disk = RenamedFolders(path)
        self.clock = LateWork(self.rng)
        self.durable = 0
        self.moved = 0
        self.life: Life | None = None

    def run(self, steps: int) -> None:
        with self.disk.watching():
            try:
                self._begin()
                for _ in range(steps):
                    self._step()
                if self.rng.random() < 0.3:
                    self.disk.write_back()
                if self.rng.random() < 0.7:
                    self.disk.calls_left = self.rng.randint(0, 15)
                    self._step()
            except PowerCut:
                pass
            finally:
                self.disk.calls_left = None

    def _begin(self) -> None:
        for path in self.dirs:
            os.mkdir(path)
        fd = os.open(self.path, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
        self.life = Life(opened(self.dirs, self.clock))
        self.life.create()
        # Its names; an empty log that power takes is another test's business.
        self.life.append(1, 1)
        self.clock.catch_up()
        self.life.log.flush()
        self.life.store.checkpoint_recovery_points()
        self.durable = self.life.log.recovery_point

    def _step(self) -> None:
        rng, life = self.rng, self.life
        assert life is not None
        moving = life.store.moving
        what = rng.choice(["append", "append", "flush", "copy", "change over", "points", "time"])
        if what == "append":
            life.append(rng.randint(1, 3), 1)
        elif what == "flush":
            life.log.flush()
        elif what == "points":
            life.store.checkpoint_recovery_points()
        elif what == "time":
            self.clock.catch_up()
            self.clock.advance(20)
        elif TP not in moving.targets:
            moving.begin(TP, next(path for path in self.dirs if path != life.home))
        elif what == "copy":
            moving.copy(TP, SLICE)
        else:
            life.copy()
            moving.prepare(TP, life.log.log_end_offset, lambda: None)
            self.clock.catch_up()
            if rng.random() < 0.5:
                life.append(1, 1)
            life.copy()
            self.moved += moving.replace(TP) is not None
        self.durable = max(self.durable, life.log.recovery_point)

    def judge(self) -> None:
        assert self.life is not None
        with contextlib.suppress(BaseException):
            kill(self.life.store)
        lost = f"{self.path}-lost"
        self.disk.cut(self.rng, lost)
        shutil.rmtree(self.path)
        os.rename(lost, self.path)
        store = opened(self.dirs, Clock(now=2e6))
        try:
            assert not store.offline_logs
            log = store.logs()[TP]
            found = read_all(log)
            known = self.life.written
            assert found[: len(known)] == known[: len(found)], "a prefix of what was written"
            assert len(found) <= len(known) + 1, "the last one may be there without having been acknowledged"
            assert log.log_end_offset >= self.durable, f"{log.log_end_offset} of {self.durable}"
            again = Life(store, value=1000)
            if TP in store.moving.targets:
                again.change_over()
            assert read_all(again.log) == found
        finally:
            kill(store)


@given(seed=st.integers(0, 2**32), steps=st.integers(3, 40))
@examples(60)
def test_power_failure_anywhere_in_a_move_takes_nothing_that_was_durable(seed: int, steps: int) -> None:
    with folder() as place:
        run = Run(f"{place}/data", seed)
        os.mkdir(run.path)
        run = Run(run.path, seed)
        run.run(steps)
        run.judge()
