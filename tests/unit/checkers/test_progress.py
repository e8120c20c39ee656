from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

from checkers.progress import Progress


def test_progress_counts_what_is_done_and_says_how_many_there_are_once_that_is_known(tmp_path: Path) -> None:
    file = tmp_path / "progress"
    progress = Progress(file)
    first: Future[int] = progress.watch(Future())
    second: Future[int] = progress.watch(Future())
    first.set_result(1)
    assert file.read_text() == "1 0\n"
    progress.rest(2)
    assert file.read_text() == "1 4\n"
    second.set_exception(RuntimeError("a job that failed is over as well"))
    progress.done()
    progress.done()
    assert file.read_text() == "4 4\n"
    assert [path.name for path in tmp_path.iterdir()] == ["progress"]


def test_progress_that_nobody_reads_or_that_cannot_be_written_costs_nothing(tmp_path: Path) -> None:
    for file in (None, tmp_path / "none" / "progress"):
        progress = Progress(file)
        progress.rest(1)
        progress.done()
    assert list(tmp_path.iterdir()) == []
