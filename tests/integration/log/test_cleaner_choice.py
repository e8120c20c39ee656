"""Which log is cleaned next, where one cannot be."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.log.cleaner.cleaner import CleaningJob, LogCleaning
from broker.log.cleaner.process import CleaningEnd, OnEvent, Stop, perform
from broker.log.cleaner.schedule import CleanerSettings, LogCleaner
from broker.log.cleaner.throttle import unlimited
from broker.log.log import PartitionLog
from broker.log.log_manager import LogManager
from broker.model.ids import TopicPartition
from tests.property.log.compaction_tools import COMPACTED, Replicas, cleaner_for, keyed, last_values, records_of
from tests.property.log.log_tools import TOPIC_ID, TP, Clock, kill, open_log, open_store

pytestmark = pytest.mark.guarantee("L3")

OTHER = TopicPartition("t", 1)


class _DyingRunner:
    """Processes for one partition die, as often as `deaths` says. What becomes of any is told by `tell`."""

    def __init__(self, tp: TopicPartition, deaths: int) -> None:
        self._tp = tp
        self.deaths = deaths
        self.started: list[str] = []
        self._under_way: list[Callable[[], None]] = []

    def start(self, job: CleaningJob, on_event: OnEvent) -> Stop:
        name = job.directory.rpartition("/")[2]
        self.started.append(name)
        if name == str(self._tp) and self.deaths > 0:
            self.deaths -= 1
            self._under_way.append(lambda: on_event(CleaningEnd("died", "the cleaner process ended with SIGKILL")))
        else:
            self._under_way.append(lambda: perform(LogCleaning(job, unlimited()), on_event))
        return lambda: None

    def tell(self) -> None:
        self._under_way.pop(0)()


def _fill(log: PartitionLog, keys: int) -> None:
    for n in range(60):
        log.append_as_leader(keyed([(b"k%d" % (n % keys), b"v%d" % n * 8)]), 0)
        log.write()


def _two_logs(path: str) -> tuple[LogManager, PartitionLog, PartitionLog]:
    store = open_store(path, Clock(), COMPACTED)
    first, second = open_log(store), store.create(OTHER, TOPIC_ID, {})
    _fill(first, 3)
    _fill(second, 3)
    # Cleaned up to its middle: the other one is dirtier, each time.
    second.cleaning.note_cleaned(second.segment_base_offsets[len(second.segment_base_offsets) // 2])
    return store, first, second


def test_log_whose_cleanings_die_does_not_keep_others_from_theirs(path: str) -> None:
    store, first, _ = _two_logs(path)
    runner = _DyingRunner(TP, deaths=3)
    cleaner = LogCleaner(store, Replicas(store.logs), runner, CleanerSettings(), lambda: 1e6)
    before = last_values(records_of(first))
    for _ in range(5):
        cleaner.check()
        runner.tell()
    assert runner.started == [str(TP), str(OTHER), *[str(TP)] * 3]
    assert cleaner.runs == 2
    assert last_values(records_of(first)) == before
    # And then it is as good as any.
    for log in store.logs().values():
        _fill(log, 3)
    first.cleaning.note_cleaned(0)
    cleaner.check()
    assert runner.started[-1] == str(TP)
    runner.tell()
    assert not cleaner.uncleanable
    kill(store)


def test_cleaning_that_fails_in_a_way_that_nobody_knows_is_not_tried_again(
    path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store, _, second = _two_logs(path)
    monkeypatch.setattr(LogCleaning, "_clean_group", _breaks_at(LogCleaning._clean_group, str(TP)))
    bench = cleaner_for(store, Clock())
    before = last_values(records_of(second))
    for _ in range(3):
        bench.cleaner.check()
    assert bench.cleaner.uncleanable[TP][1] == "ValueError('nobody thought of it')"
    assert [job.directory.rpartition("/")[2] for job in bench.runner.jobs] == [str(TP), str(OTHER)]
    assert last_values(records_of(second)) == before
    assert "nobody thought of it" in capsys.readouterr().err
    assert not store.offline_dirs
    kill(store)


def _breaks_at(clean: object, name: str) -> object:
    def broken(self: LogCleaning, *args: object) -> object:
        if self._job.directory.endswith(name):
            raise ValueError("nobody thought of it")
        return clean(self, *args)  # type: ignore[operator]

    return broken


def test_tombstones_that_are_kept_for_ever_are_no_obstacle(path: str) -> None:
    store = open_store(path, Clock(), COMPACTED | {"delete.retention.ms": str(2**63 - 1)})
    log = open_log(store)
    log.append_as_leader(keyed([(b"gone", b"x"), (b"gone", None)]), 0)
    log.write()
    _fill(log, 3)
    bench = cleaner_for(store, Clock(now=1e12))
    for _ in range(2):
        bench.cleaner.check()
        log.cleaning.note_cleaned(0)
    assert not bench.cleaner.uncleanable
    assert bench.cleaner.runs == 2
    assert [(row.key, row.value) for row in records_of(log) if row.key == b"gone"] == [(b"gone", None)]
    kill(store)
