"""Which logs a store distrusts after a stop, with real files; the mark sticks until the replica is mended."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.log.run_mark import FILE_NAME
from broker.log.stops import UNCLEAN_MARK
from broker.log.store import DiskLogStore
from tests.property.log.log_tools import TP, Clock, batch, kill, open_log, open_store

CONFIG = {"segment.bytes": "100000"}


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "data")


def opened(path: str) -> DiskLogStore:
    return open_store(path, Clock(), CONFIG)


def written(path: str, count: int = 10) -> DiskLogStore:
    store = opened(path)
    log = open_log(store)
    for value in range(count):
        log.append_as_leader(batch(value), 0)
        log.write()
    return store


def segment(path: str) -> Path:
    return Path(path, str(TP), f"{0:020d}.log")


def cut(path: str, batches: int) -> None:
    """At the end of a batch: no CRC tells."""
    size = segment(path).stat().st_size
    os.truncate(segment(path), size // 10 * batches)


def lose_the_host(path: str) -> None:
    Path(path, FILE_NAME).unlink()


def distrusts(path: str) -> bool:
    store = opened(path)
    try:
        assert (TP in store.unclean) == Path(path, str(TP), UNCLEAN_MARK).exists()
        return TP in store.unclean
    finally:
        kill(store)


def test_kill_costs_nothing(path: str) -> None:
    kill(written(path))
    assert not distrusts(path)
    assert not distrusts(path)


def test_torn_write_that_nobody_was_told_of_costs_nothing(path: str) -> None:
    kill(written(path))
    with segment(path).open("ab") as file:
        file.write(bytes(batch(10))[:50])
    assert not distrusts(path)


@pytest.mark.parametrize("damage", [lambda path: cut(path, 9), lambda path: cut(path, 0), lose_the_host])
def test_log_that_was_cut_or_lost_its_host_is_distrusted(path: str, damage: Callable[[str], None]) -> None:
    kill(written(path))
    damage(path)
    assert distrusts(path)


def test_lost_host_after_a_clean_stop_costs_nothing(path: str) -> None:
    written(path).close(clean=True)
    lose_the_host(path)
    assert not distrusts(path)


def test_log_cut_after_a_clean_stop_is_distrusted(path: str) -> None:
    written(path).close(clean=True)
    cut(path, 9)
    assert distrusts(path)


def test_own_truncation_is_no_loss(path: str) -> None:
    store = written(path)
    open_log(store).truncate_to(4)
    kill(store)
    assert not distrusts(path)


@pytest.mark.parametrize("offset", [3, 40])
def test_log_begun_anew_is_no_loss(path: str, offset: int) -> None:
    store = written(path)
    open_log(store).truncate_fully_and_start_at(offset)
    kill(store)
    assert not distrusts(path)


def test_log_of_a_topic_made_again_under_the_name_is_no_loss(path: str) -> None:
    store = written(path)
    store.delete(TP)
    open_log(store)
    kill(store)
    assert not distrusts(path)


def test_distrust_outlives_clean_stops_and_ends_when_the_replica_is_mended(path: str) -> None:
    kill(written(path))
    cut(path, 5)
    store = opened(path)
    store.close(clean=True)
    store = opened(path)
    assert TP in store.unclean
    assert "reached 10" in store.unclean[TP]
    store.trust_again(TP)
    kill(store)
    assert not distrusts(path)


def test_log_made_anew_for_an_old_partition_is_distrusted_from_then_on(path: str) -> None:
    store = opened(path)
    open_log(store)
    store.distrust(TP, "made anew")
    store.close(clean=True)
    assert distrusts(path)
