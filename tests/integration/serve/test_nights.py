"""Nights in the browser's view: the list, one night and the runs it leads to; nothing of the history is changed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from harness.nightly.history import FILE, open_history
from harness.nightly.jobs import Figures, Job, Result
from tests.support.browser import browser
from tests.support.served import STAMP, served, write_run

pytestmark = pytest.mark.guarantee("V6")


def night_after_night(out: Path, nights: int = 5) -> None:
    """One run file, found invalid in the last night, which takes thrice as long to recover."""
    run = write_run(out / "store", "demo")
    gone = out / "store" / "demo" / "20250101T000000.000Z"
    with open_history(out) as history:
        for number in range(1, nights + 1):
            last = number == nights
            night = history.begin_night("demo <b>", 1, 1)
            job = Job("demo.toml", "demo", "d", 7, "valid", code="same")
            if last:
                history.record(night.id, job, Result(255, 3.0, "the node died", None, trouble="infrastructure"))
            result = Result(
                1 if last else 0,
                61.0,
                "1 record is gone." if last else "All there.",
                str(run.resolve() if last else gone),
                ("lost-write",) if last else (),
                figures=Figures(recovery_ms=900.0 if last else 300.0),
            )
            history.record(night.id, job, result)
            if not last:
                (row,) = history.of_night(night.id)
                history.mark_removed(row.id)
            history.end_night(night.id, 1 if last else 0, 0)


def test_nights_lead_to_their_runs(tmp_path: Path) -> None:
    night_after_night(tmp_path)
    before = hashlib.sha256((tmp_path / FILE).read_bytes()).digest()
    with served(tmp_path) as server:
        nights = server.get("/nights").text
        assert "5 nights" in nights
        assert nights.index("demo &lt;b&gt;, night 5") < nights.index("demo &lt;b&gt;, night 4")
        assert "1 invalid" in nights
        night = server.get("/night/5/").text
        assert f'<a href="/run/demo/{STAMP}/">demo</a>' in night
        for said in (
            "1 record is gone.",
            "lost-write",
            "came to no verdict at first: demo seed 7: the node died",
            "flaky: demo seed 7: valid, valid, valid, valid, invalid",
            "not as usual: demo: slowest recovery after a fault, ms: 900, usually 300 (worse)",
        ):
            assert said in night, said
        assert "flaky" not in server.get("/night/4/").text
        assert f"/run/demo/{STAMP}/" not in server.get("/night/4/").text, "its folder was removed"
        assert [server.get(f"/night/{bad}/").status for bad in ("6", "0", "x", "9" * 30)] == [404] * 4
        assert server.get(f"/run/demo/{STAMP}/").status == 200
    assert hashlib.sha256((tmp_path / FILE).read_bytes()).digest() == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(FILE)] == [FILE]


def test_store_in_a_folder_of_nights_has_them_too(tmp_path: Path) -> None:
    night_after_night(tmp_path, 1)
    with served(tmp_path / "store") as server:
        assert "1 night<" in server.get("/nights").text


def test_store_without_nights_says_where_they_would_be(tmp_path: Path) -> None:
    write_run(tmp_path, "demo")
    with served(tmp_path) as server:
        assert "No nights are kept beside this store" in server.get("/nights").text
        assert server.get("/night/1/").status == 404


def test_history_that_is_none_is_named_and_the_runs_are_shown(tmp_path: Path) -> None:
    write_run(tmp_path / "store", "demo")
    (tmp_path / FILE).write_bytes(b"no database at all" * 100)
    with served(tmp_path) as server:
        answer = server.get("/nights")
        assert (answer.status, "cannot be used as a history of nights" in answer.text) == (404, True)
        assert server.get("/").status == 200


@pytest.mark.browser
def test_screen_reader_hears_what_each_part_of_a_night_is(tmp_path: Path) -> None:
    night_after_night(tmp_path)
    with served(tmp_path) as server, browser(tmp_path / "profile") as tab:
        tab.show(f"{server.address}night/5/")
        spoken = tab.spoken()
        assert ("region", "Runs") in spoken
        assert ("region", "Night after night") in spoken
        assert any(role == "link" and name.endswith(": invalid") for role, name in spoken)
        assert not [role for role, name in spoken if role == "link" and not name]
