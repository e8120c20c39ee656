"""What `highwater consume` refuses before it asks a broker, and what counts as read where output cannot be written."""

from __future__ import annotations

import errno
import io
import os

import pytest

from broker.tools.client.committed_reads import Shown
from broker.tools.consume import command
from broker.tools.consume.command import Printer, parser, run, start_of
from broker.tools.consume.formatter import formatter
from broker.wire.records import Record

WORDS = ("--bootstrap-server", "a:1", "--topic", "t")


def test_partition_and_offset_are_read() -> None:
    made = parser()
    assert start_of(made, made.parse_args([*WORDS, "--partition", "3", "--offset", "41"]))[1:] == (3, 41)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--partition", "-1", "--offset", "5"), "--partition -1: it must be 0 or more"),
        (("--partition", "99999999999"), "argument --partition: Cannot parse argument '99999999999'"),
        (("--partition", "0", "--offset", "9" * 20), f"The provided offset value '{'9' * 20}' is incorrect. Valid"),
        (("--partition", "0", "--offset", "\uff11"), "The provided offset value '\uff11' is incorrect. Valid values"),
        (("--partition", "0", "--offset", "-1"), "The provided offset value '-1' is incorrect. Valid values are"),
    ],
)
def test_place_that_cannot_be_is_refused(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str) -> None:
    made = parser()
    with pytest.raises(SystemExit) as ended:
        start_of(made, made.parse_args([*WORDS, *words]))
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith(said)


def test_wrong_pattern_of_topics_ends_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--bootstrap-server", "127.0.0.1:1", "--include", "["]) == 1
    assert capsys.readouterr().err == "[ is an invalid regex.\n"


class Chunk:
    where = ("t", 0)
    start = 0
    next_offset = 3
    records = tuple(Shown(Record(offset, 0, None, b"x", ()), False) for offset in range(3))


class Consumed:
    """A consumer with one chunk."""

    def __init__(self) -> None:
        self.consumed = {Chunk.where: Chunk.start}
        self.closed_with: dict[tuple[str, int], int] | None = None
        self._chunks = [[Chunk()]]

    def poll(self, _seconds: float) -> list[Chunk]:
        return self._chunks.pop() if self._chunks else []

    def close(self) -> None:
        self.closed_with = dict(self.consumed)


class Buffer(io.BytesIO):
    """Takes all, and loses it with an error where there is one."""

    def __init__(self, error: OSError | None) -> None:
        super().__init__()
        self._error = error

    def flush(self) -> None:
        if self._error is not None:
            raise self._error


class Output:
    """Standard output."""

    def __init__(self, error: OSError | None) -> None:
        self.buffer = Buffer(error)


@pytest.mark.parametrize(
    ("error", "code", "read"),
    [
        (None, 0, 3),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), 1, 0),
        (BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)), 0, 0),
    ],
)
def test_what_could_not_be_written_does_not_count_as_read(
    error: OSError | None,
    code: int,
    read: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    consumer = Consumed()
    options = parser().parse_args([*WORDS, "--timeout-ms", "1"])
    monkeypatch.setattr("sys.stdout", Output(error))
    monkeypatch.setattr(command, "forget_output", lambda: None)
    assert Printer(consumer, formatter(None, {}), options).run() == code  # type: ignore[arg-type]
    assert consumer.closed_with == {("t", 0): read}
    said = capsys.readouterr().err
    assert ("Unable to write to standard out, closing consumer." in said) is (error is not None)
    assert ("(No space left on device)" in said) is (code == 1)
