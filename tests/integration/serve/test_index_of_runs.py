"""The list of runs as a real server gives it: what is in it, who may ask, and how the server ends."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
from pathlib import Path

import pytest

from harness.serve.index import Index
from tests.support.served import served, write_results, write_run

pytestmark = pytest.mark.guarantee("V6")


def test_list_shows_judged_unjudged_and_broken_runs_and_filters_them(tmp_path: Path) -> None:
    write_run(tmp_path, "bad")
    write_results(write_run(tmp_path, "good", seed=8), verdict="valid", sentence="Valid: all there.", checkers={})
    write_run(tmp_path, "recorded", judged=False)
    (write_run(tmp_path, "torn") / "run.json").write_text('{"name": "to', encoding="utf-8")
    (write_run(tmp_path, "half") / "run.json").unlink()
    (tmp_path / "bad" / "latest").symlink_to("20260101T000000.000Z")
    with served(tmp_path) as server:
        everything = server.get("/").text
        assert "5 of 5 runs" in everything
        assert "Invalid: 1 acknowledged record lost; found by lost-write" in everything
        assert "1 min 5 s" in everything
        assert "run.json: not JSON, or half written" in everything
        assert "run.json: no such file" in everything
        assert "1 of 5 runs" in server.get("/?verdict=not+judged").text
        found = server.get("/?checker=lost-write").text
        assert "1 of 5 runs" in found
        assert "bad/2026" in found
        assert "good/2026" in server.get("/?seed=8").text


def test_list_follows_changes_of_the_store(tmp_path: Path) -> None:
    index = Index(tmp_path)
    assert index.runs() == []
    folder = write_run(tmp_path, "demo", judged=False)
    assert [run.state for run in index.runs()] == ["not judged"]
    write_results(folder, verdict="valid")
    assert [run.state for run in index.runs()] == ["valid"]
    shutil.rmtree(folder)
    assert index.runs() == []


def test_run_json_that_is_a_pipe_or_a_link_is_not_opened(tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"name": "secret"}', encoding="utf-8")
    store = tmp_path / "store"
    for name in ("pipe", "link"):
        (write_run(store, name) / "run.json").unlink()
    os.mkfifo(store / "pipe" / "20260101T000000.000Z" / "run.json")
    (store / "link" / "20260101T000000.000Z" / "run.json").symlink_to(secret)
    assert sorted((run.name, run.state) for run in Index(store).runs()) == [
        ("link", "not readable"),
        ("pipe", "not readable"),
    ]


def test_hostile_names_are_text(tmp_path: Path) -> None:
    write_run(tmp_path, 'x"><script>alert(1)<')
    write_results(write_run(tmp_path, "y"), sentence="<script>alert(2)</script>\ud800", checkers={"<script>": 1})
    with served(tmp_path) as server:
        page = server.get("/?q=%22%3E%3Cscript%3E")
        everything = server.get("/")
    assert page.status == 200
    assert "<script" not in page.text
    assert "1 of 2 runs" in page.text
    assert "<script" not in everything.text
    assert "&lt;script&gt;alert(2)" in everything.text


def test_only_own_names_and_only_reading(tmp_path: Path) -> None:
    write_run(tmp_path, "demo")
    with served(tmp_path) as server:
        assert server.get("/", Host="evil.example").status == 421
        assert server.get("/", Host=f"localhost:{server.port}").status == 200
        assert [server.get("/", method).status for method in ("POST", "PUT", "DELETE", "OPTIONS")] == [405] * 4
        head = server.get("/", "HEAD")
        assert (head.status, head.body) == (200, b"")
        assert "default-src 'none'" in head.headers["content-security-policy"]
        assert "script-src" not in head.headers["content-security-policy"]
        assert head.headers["x-content-type-options"] == "nosniff"
        nothing = server.get("/none")
        assert nothing.status == 404
        assert "content-security-policy" in nothing.headers


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_it_quietly_also_with_a_connection_open(tmp_path: Path, number: signal.Signals) -> None:
    with served(tmp_path) as server, socket.create_connection(("127.0.0.1", server.port)):
        server.get("/")
        server.process.send_signal(number)
        _, said = server.process.communicate(timeout=20)
        assert (server.process.returncode, said) == (0, "")


def test_thousand_runs_are_listed_in_pages(tmp_path: Path) -> None:
    for number in range(1_000):
        write_run(tmp_path, f"run{number % 10}", f"20260101T000000.{number:03}Z", seed=number)
    with served(tmp_path) as server:
        seen: set[str] = set()
        for number in range(1, 11):
            page = server.get(f"/?sort=seed&order=up&page={number}").text
            first = (number - 1) * 100
            assert f"1000 of 1000 runs, {first + 1} to {first + 100} here" in page
            found = re.findall(r"/run/run\d/20260101T000000\.(\d\d\d)Z/", page)
            assert found == [f"{seed:03}" for seed in range(first, first + 100)]
            seen.update(found)
        assert len(seen) == 1_000
        # Beyond the last page is the last page, and what is filtered is paged as well.
        assert "901 to 1000 here" in server.get("/?page=99").text
        filtered = server.get("/?q=run3").text
        assert "100 of 1000 runs</p>" in filtered
        assert "Pages of the list" not in filtered
        assert 'href="?q=run&amp;page=2"' in server.get("/?q=run").text
