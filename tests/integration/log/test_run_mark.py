"""What the kernel remembers of the last run of a log dir, with real files."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.log.files import run_mark
from broker.log.files.run_mark import FILE_NAME, RunMark
from broker.model.ids import TopicPartition
from tests.support.page_cache import drop

pytestmark = pytest.mark.guarantee("R12")

PAGE = 4096
A, B = TopicPartition("a", 0), TopicPartition("b", 7)


@pytest.fixture
def marked(tmp_path: Path) -> str:
    """A log dir whose process ended with a at 5 and b at 9."""
    mark = RunMark(str(tmp_path))
    mark.add(A, 0)
    mark.add(B, 3)
    mark.set(A, 5)
    mark.set(B, 9)
    mark.close()
    return str(tmp_path)


def test_ends_are_remembered_without_a_sync(marked: str) -> None:
    last = run_mark.read(marked)
    assert last.same_kernel
    assert (last.end_of(A), last.end_of(B), last.end_of(TopicPartition("c", 0))) == (5, 9, None)


def test_registration_is_remembered_and_outlives_a_larger_mark(tmp_path: Path) -> None:
    mark = RunMark(str(tmp_path), epoch=5)
    assert run_mark.read(str(tmp_path)).epoch == 5
    mark.set_epoch(2**40)
    for index in range(1000):
        mark.set(TopicPartition("t", index), index)
    mark.close()
    last = run_mark.read(str(tmp_path))
    assert (last.epoch, last.end_of(TopicPartition("t", 999))) == (2**40, 999)


def test_registration_is_not_known_where_nobody_said_it(marked: str) -> None:
    assert run_mark.read(marked).epoch == run_mark.NO_EPOCH
    with Path(marked, FILE_NAME).open("r+b") as file:
        # As older versions left it.
        file.seek(504)
        file.write(bytes(8))
    assert run_mark.read(marked).same_kernel
    assert run_mark.read(marked).epoch == run_mark.NO_EPOCH


def test_another_boot_is_another_host(marked: str) -> None:
    last = run_mark.read(marked, boot_id="another")
    assert not last.same_kernel
    assert last.end_of(A) is None


def test_copy_of_a_log_dir_is_not_the_log_dir(marked: str, tmp_path: Path) -> None:
    original = tmp_path / FILE_NAME
    content = original.read_bytes()
    original.rename(tmp_path / "kept")
    original.write_bytes(content)
    assert not run_mark.read(marked).same_kernel


def test_page_that_left_the_cache_proves_nothing(marked: str) -> None:
    drop(Path(marked, FILE_NAME))
    assert not run_mark.read(marked).same_kernel
    assert not run_mark.read(marked, boot_id="another").same_kernel


@pytest.mark.parametrize("content", [b"", b"\0" * 4096, b"{" * 600, b"[]".ljust(600, b"\0")])
def test_damaged_mark_reads_as_a_lost_host(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    assert not run_mark.read(str(tmp_path)).same_kernel


def test_mark_that_was_cut_reads_as_a_lost_host(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    mark = RunMark(str(tmp_path))
    for index in range(300):
        mark.set(TopicPartition("t", index), index)
    mark.close()
    file = tmp_path / FILE_NAME
    whole = file.read_bytes()
    # The last one is as long as a mark of fewer logs.
    for size in (len(whole) - 1, len(whole) - 16, len(whole) // 2, 600, 528, 512, 4096):
        os.truncate(file, size)
        assert not run_mark.read(str(tmp_path)).same_kernel
        assert f"{size} bytes are not 480 slots" in caplog.text
        # Into the same file, as if nobody had read it.
        file.write_bytes(whole)
        drop(file, len(whole) - PAGE)
        assert run_mark.read(str(tmp_path)).end_of(TopicPartition("t", 299)) == 299


@pytest.mark.parametrize("unknown", [["guard"], ["guard", "slots"]])
def test_mark_of_an_older_version_is_read_as_it_is(marked: str, unknown: list[str]) -> None:
    with Path(marked, FILE_NAME).open("r+b") as file:
        header = json.loads(file.read(504).rstrip(b"\0"))
        for name in unknown:
            assert header.pop(name) > 0
        file.seek(0)
        file.write(json.dumps(header).encode().ljust(504, b"\0"))
        file.truncate(PAGE)
    last = run_mark.read(marked)
    assert (last.same_kernel, last.end_of(A), last.end_of(B)) == (True, 5, 9)


@pytest.mark.parametrize("slots", ['"x"', "[]", "1.5", "-1"])
def test_mark_whose_count_of_slots_makes_no_sense_stops_no_start(marked: str, slots: str) -> None:
    with Path(marked, FILE_NAME).open("r+b") as file:
        header = file.read(504).rstrip(b"\0").decode()
        file.seek(0)
        file.write(header.replace('"slots": 224', f'"slots": {slots}').encode().ljust(504, b"\0"))
    assert not run_mark.read(marked).same_kernel


def test_missing_mark_reads_as_a_lost_host(tmp_path: Path) -> None:
    assert not run_mark.read(str(tmp_path)).same_kernel


def test_many_logs_and_deleted_ones_are_kept_apart(tmp_path: Path) -> None:
    mark = RunMark(str(tmp_path))
    partitions = [TopicPartition("t", index) for index in range(1000)]
    for partition in partitions:
        mark.set(partition, partition.partition * 2)
    for partition in partitions[:500]:
        mark.remove(partition)
    mark.add(A, 77)
    mark.close()
    last = run_mark.read(str(tmp_path))
    assert [last.end_of(partition) for partition in partitions[:500]] == [None] * 500
    assert [last.end_of(partition) for partition in partitions[500:]] == [2 * p.partition for p in partitions[500:]]
    assert last.end_of(A) == 77


# Who reads the file brings its first page back into the page cache


def ended(path: Path, logs: int) -> Path:
    """The mark of a process that ended with so many logs."""
    mark = RunMark(str(path))
    for index in range(logs):
        mark.set(TopicPartition("t", index), index)
    mark.close()
    return path / FILE_NAME


def whole(file: Path) -> None:
    file.read_bytes()


def copied(file: Path) -> None:
    subprocess.run(["cp", "-a", file, file.with_name("copy")], check=True)


def data(file: Path) -> None:
    """A reader that passes over holes, and over blocks that were never written; no reading ahead."""
    with file.open("rb", buffering=0) as opened:
        fd, at = opened.fileno(), 0
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        while at < os.fstat(fd).st_size:
            begin = os.lseek(fd, at, os.SEEK_DATA)
            at = os.lseek(fd, begin, os.SEEK_HOLE)
            os.pread(fd, at - begin, begin)


@pytest.mark.parametrize("logs", [1, 1000])
@pytest.mark.parametrize("reader", [whole, copied, data])
def test_mount_that_was_lost_is_no_mere_kill_where_somebody_read_the_dir_since(
    tmp_path: Path, logs: int, reader: Callable[[Path], None]
) -> None:
    file = ended(tmp_path, logs)
    drop(file)
    reader(file)
    assert not run_mark.read(str(tmp_path)).same_kernel
    assert not run_mark.read(str(tmp_path)).same_kernel, "nor at the next start"


@pytest.mark.parametrize("logs", [1, 1000])
def test_killed_process_is_a_mere_kill_at_any_number_of_starts(tmp_path: Path, logs: int) -> None:
    """Of the larger mark both the process and the start have to read slots from the disk."""
    program = (
        "import signal, sys\n"
        "from broker.log.files.run_mark import RunMark\n"
        "from broker.runtime.ports import TopicPartition\n"
        "mark = RunMark(sys.argv[1])\n"
        "for index in range(int(sys.argv[2])): mark.set(TopicPartition('t', index), index + 5)\n"
        "print('written', flush=True); signal.pause()\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path), str(logs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"written\n"
        process.kill()
    assert process.returncode == -signal.SIGKILL
    for _ in range(3):
        last = run_mark.read(str(tmp_path))
        assert (last.same_kernel, last.end_of(TopicPartition("t", logs - 1))) == (True, logs + 4)


@pytest.mark.parametrize("logs", [1, 1000])
def test_reader_of_a_running_brokers_dir_is_forgotten(tmp_path: Path, logs: int) -> None:
    mark = RunMark(str(tmp_path))
    for index in range(logs):
        mark.set(TopicPartition("t", index), index)
    whole(tmp_path / FILE_NAME)
    assert not run_mark.read(str(tmp_path)).same_kernel, "in doubt until then"
    mark.forget_readers()
    mark.set(TopicPartition("t", 0), 77)
    mark.close()
    assert run_mark.read(str(tmp_path)).end_of(TopicPartition("t", 0)) == 77


@pytest.mark.parametrize("error", [0, errno.EOPNOTSUPP])
def test_file_system_whose_cache_gives_nothing_up_does_without_a_guard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    def advise(*_: int) -> None:
        if error:
            raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "posix_fadvise", advise)
    whole(ended(tmp_path, 1000))
    assert run_mark.read(str(tmp_path)).end_of(TopicPartition("t", 999)) == 999
