from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from harness.operations.history import MAIN, History, HistoryError, read_lines, recover
from harness.operations.op import Completion, Invocation
from tests.support.wait import eventually

pytestmark = pytest.mark.guarantee("H6")


def poll(process: int = 0, position: int = 0) -> Invocation:
    return Invocation(process, "poll", MAIN, "hw", 0, "n1", {"position": position})


def test_history_line_has_every_field_of_the_contract(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with History(path, origin_ns=1000, clock_ns=lambda: 5000) as history:
        index = history.invoke(poll(position=3))
        records = [{"offset": 3, "value": 9, "epoch": 1, "intact": True}]
        history.complete(index, poll(position=3), Completion("ok", 6000, None, {"records": records}))
    first, second = read_lines(path)
    common = {"process": 0, "kind": "client", "f": "poll", "phase": "main", "topic": "hw", "partition": 0, "node": "n1"}
    assert first == {"type": "invoke", "index": 0, "time_ns": 4000, **common, "position": 3}
    assert second == {"type": "ok", "index": 1, "time_ns": 5000, "invoke": 0, **common, "records": records}


def test_history_error_stands_only_where_there_is_one(tmp_path: Path) -> None:
    with History(tmp_path / "h", 0) as history:
        history.complete(history.invoke(poll()), poll(), Completion("info", 1, "timeout"))
        history.harness("evidence", node="n1")
    lines = list(read_lines(tmp_path / "h"))
    assert [line.get("error") for line in lines] == [None, "timeout", None]
    assert "error" not in lines[2]


def test_history_own_lines_carry_their_process_and_phase(tmp_path: Path) -> None:
    with History(tmp_path / "h", 0) as history:
        history.begin_phase(MAIN)
        history.nemesis(
            "start",
            fault="kill",
            fault_id=1,
            targets=["n1"],
            params={"b": 2, "a": 1},
            observed=True,
            observation="gone",
            file="hw-0/0.log",
        )
        history.nemesis("stop", fault="kill", fault_id=1, targets=["n1"], params={}, observed=True, observation="back")
    phase, fault, stop = read_lines(tmp_path / "h")
    assert (fault["file"], "file" in stop) == ("hw-0/0.log", False)
    assert (phase["process"], phase["kind"], phase["f"], phase["phase"]) == (-2, "harness", "phase", "main")
    assert (fault["process"], fault["kind"], fault["type"]) == (-1, "nemesis", "info")
    assert fault["params_json"] == '{"a": 1, "b": 2}'


def test_history_invocation_is_in_the_file_when_invoke_returns(tmp_path: Path) -> None:
    path = tmp_path / "h"
    with History(path, 0) as history:
        for number in range(3):
            index = history.invoke(poll(position=number))
            assert list(read_lines(path))[-1]["index"] == index
            history.complete(index, poll(position=number), Completion("ok", 1))


def test_history_completion_is_in_the_file_though_nothing_follows_it(tmp_path: Path) -> None:
    path = tmp_path / "h"
    with History(path, 0) as history:
        history.complete(history.invoke(poll()), poll(), Completion("ok", 1))
        eventually(lambda: sum(1 for _ in read_lines(path)) == 2, "the completion is in the file")


def test_history_many_threads_leave_no_gap_in_the_index(tmp_path: Path) -> None:
    path = tmp_path / "h"

    def work(process: int) -> None:
        for number in range(300):
            index = history.invoke(poll(process, number))
            history.complete(index, poll(process, number), Completion("ok", time.monotonic_ns()))

    with History(path, 0) as history:
        threads = [threading.Thread(target=work, args=(process,)) for process in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = recover(path)
    assert (found.lines, found.invocations, found.open, found.torn_bytes) == (4800, 2400, 0, 0)
    invoked: dict[object, int] = {}
    for line in read_lines(path):
        if line["type"] == "invoke":
            invoked[line["index"]] = int(str(line["process"]))
        else:
            assert invoked[line["invoke"]] == line["process"]


def test_history_never_overwrites_another(tmp_path: Path) -> None:
    (tmp_path / "h").write_text("mine")
    with pytest.raises(FileExistsError):
        History(tmp_path / "h", 0)


def test_history_after_close_refuses_to_write(tmp_path: Path) -> None:
    history = History(tmp_path / "h", 0)
    history.close()
    history.close()
    with pytest.raises(OSError, match="is closed"):
        history.invoke(poll())


def test_history_full_disk_is_raised_at_the_invocation() -> None:
    if not Path("/dev/full").exists():
        pytest.fail("this kernel has no /dev/full")
    history = History.__new__(History)
    folder = Path("/dev")
    # O_EXCL refuses an existing file: open the device as the history would its file.
    original = os.open
    try:
        os.open = lambda path, flags, mode=0o777, **kw: original(path, os.O_WRONLY)
        history.__init__(folder / "full", 0)  # type: ignore[misc]
    finally:
        os.open = original
    with pytest.raises(OSError, match="No space left"):
        history.invoke(poll())
    with pytest.raises(OSError, match="No space left"):
        history.invoke(poll())
    history.close()


WRITER = """
import sys, time
from pathlib import Path
from harness.operations.history import History
from harness.operations.op import Completion, Invocation

history = History(Path(sys.argv[1]), time.monotonic_ns())
number = 0
while True:
    invocation = Invocation(0, "send", "main", "hw", 0, "n1", {"values": [number], "acks": -1, "sentinel": False})
    index = history.invoke(invocation)
    # What leaves the process after the invocation stands for the request.
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()
    history.complete(index, invocation, Completion("ok", time.monotonic_ns(), None, {"base_offset": number}))
    number += 1
"""


def test_history_kill_9_loses_no_invocation_whose_request_went_out(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    requested = [int(writer.stdout.readline()) for _ in range(500)]
    writer.send_signal(signal.SIGKILL)
    requested += [int(line) for line in writer.stdout.read().split("\n") if line and line.isdigit()][:-1]
    writer.wait()
    writer.stdout.close()
    found = recover(path)
    invoked = {line["values"][0] for line in read_lines(path) if line["type"] == "invoke"}  # type: ignore[index]
    assert set(requested) <= invoked
    # At most the one under way, and what was buffered behind it, is open.
    assert found.open <= 2


def write(path: Path, *lines: dict[str, object], tail: bytes = b"") -> None:
    path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines) + tail)


def test_recover_torn_last_line_is_counted_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "h"
    tail = b'{"type":"ok","ind'
    write(path, {"type": "invoke", "index": 0}, {"type": "invoke", "index": 1}, tail=tail)
    before = path.read_bytes()
    found = recover(path)
    assert (found.lines, found.open, found.torn_bytes) == (2, 2, len(tail))
    assert path.read_bytes() == before


def test_recover_only_a_torn_line(tmp_path: Path) -> None:
    write(tmp_path / "h", tail=b"{" * 200_000)
    assert recover(tmp_path / "h").torn_bytes == 200_000


def test_recover_gap_in_the_index_is_an_error_that_names_the_line(tmp_path: Path) -> None:
    write(tmp_path / "h", {"index": 0}, {"index": 2})
    with pytest.raises(HistoryError, match=r"h:2: index 2 where 1 was due"):
        recover(tmp_path / "h")


def test_read_lines_broken_line_in_the_middle_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "h").write_bytes(b'{"index": 0}\nnonsense\n{"index": 2}\n')
    with pytest.raises(HistoryError, match="h:2: not JSON"):
        list(read_lines(tmp_path / "h"))
