"""A power failure during a swap: of the names changed since the folder was last synced, any may be lost."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.wire.compression import Compression
from tests.property.log.compaction_tools import COMPACTED, cleaner_for, keyed, last_values, records_of
from tests.property.log.log_tools import TP, Clock, folder, kill, open_log, open_store

pytestmark = pytest.mark.guarantee("L3")


class PowerFailure(BaseException):
    """Nothing more happens."""


class Names:
    """What is certainly on disk of one folder's names, and what was done to them since."""

    def __init__(self, path: str, image: str, fail_at: int) -> None:
        self.path = path
        self.image = image
        self.done: list[tuple[str, str, str]] = []
        self.changes = 0
        self._fail_at = fail_at
        self.synced()

    def synced(self) -> None:
        self.done.clear()
        shutil.rmtree(self.image, ignore_errors=True)
        os.makedirs(self.image)
        for name in os.listdir(self.path):
            os.link(f"{self.path}/{name}", f"{self.image}/{name}")

    def changed(self, kind: str, source: str, target: str = "") -> None:
        self.changes += 1
        if self.changes > self._fail_at:
            raise PowerFailure
        if os.path.dirname(source) == self.path:
            self.done.append((kind, os.path.basename(source), os.path.basename(target)))

    def fail(self, rng: random.Random) -> None:
        """Put into the folder what a disk may hold now."""
        kept = [change for change in self.done if rng.random() < 0.5]
        for kind, source, target in kept:
            if not os.path.exists(f"{self.image}/{source}"):
                continue
            if kind == "rename":
                _real["rename"](f"{self.image}/{source}", f"{self.image}/{target}")
            else:
                _real["unlink"](f"{self.image}/{source}")
        shutil.rmtree(self.path)
        _real["rename"](self.image, self.path)


_real: dict[str, Callable[..., None]] = {"rename": os.rename, "unlink": os.unlink, "fsync": os.fsync}


@contextmanager
def _watched(names: Names) -> Iterator[None]:
    def rename(source: str, target: str) -> None:
        names.changed("rename", source, target)
        _real["rename"](source, target)

    def unlink(path: str, **relative: int) -> None:
        if not relative:
            names.changed("unlink", path)
        _real["unlink"](path, **relative)

    def fsync(fd: int) -> None:
        _real["fsync"](fd)
        if os.path.realpath(f"/proc/self/fd/{fd}") == os.path.realpath(names.path):
            names.synced()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "rename", rename)
        patch.setattr(os, "unlink", unlink)
        patch.setattr(os, "fsync", fsync)
        yield


@pytest.mark.parametrize("foreign", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_names_lost_in_a_swap_cost_no_value(seed: int, foreign: bool) -> None:
    """foreign: the cleaning of a log that was deleted under this name has left a file with a smaller base."""
    rng = random.Random(seed)
    fail_at = 0
    finished = False
    while not finished:
        clock = Clock(now=1e6)
        with folder() as path:
            store = open_store(path, clock, COMPACTED)
            log = open_log(store)
            for n in range(60):
                value = None if n % 7 == 3 else b"v%d" % n * 8
                log.append_as_leader(keyed([(b"k%d" % (n % 5), value)], codec=Compression.GZIP), 1)
                log.write()
            log.flush()
            # Several segments become one.
            store.update_config(TP.topic, COMPACTED | {"segment.bytes": "2500"})
            before = records_of(log)
            names = Names(f"{path}/{TP}", f"{path}/image", fail_at)
            with _watched(names):
                try:
                    cleaner_for(store, clock).cleaner.check()
                    finished = True
                except PowerFailure:
                    pass
            kill(store)
            names.fail(rng)
            if foreign:
                Path(path, str(TP), f"{1:020d}.index.cleaned").touch()
            reopened = open_store(path, clock, COMPACTED)
            assert not reopened.offline_logs, fail_at
            log = reopened.logs()[TP]
            found = records_of(log)
            assert log.staged_end_offset == 60, fail_at
            assert last_values(found) == last_values(before), fail_at
            assert all(record in before for record in found)
            kill(reopened)
        fail_at += 1
    assert fail_at > 25
