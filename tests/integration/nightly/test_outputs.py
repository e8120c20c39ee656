from __future__ import annotations

import json
import time
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from junitparser import JUnitXml

from harness.nightly.history import open_history
from harness.nightly.jobs import Job, Result
from harness.nightly.night import Settings
from harness.nightly.retention import Keep, remove_old
from harness.runs.store import StoreError
from tests.support.nights import Function, Runner, night, nights

pytestmark = pytest.mark.guarantee("H7")


def test_nightly_writes_junit_and_a_summary_with_the_worst_first(files: Path) -> None:
    night(files, Runner({("b", 2): 1, ("a", 2): 255}))
    out = files.parent / "out"
    suites = ElementTree.parse(out / "junit.xml").getroot()
    assert [suite.get("name") for suite in suites] == ["a.seed-1", "b.seed-1", "a.seed-2", "b.seed-2"]
    assert [suite.get("failures") for suite in suites] == ["0", "0", "0", "2"]
    assert [suite.get("errors") for suite in suites] == ["0", "0", "1", "0"]
    page = (out / "summary.html").read_text()
    assert "2 valid, 1 invalid, 0 unknown, 1 crash" in page
    assert page.index('class="invalid"') < page.index('class="crash"') < page.index('class="valid"')
    assert "invalid &lt;it&gt;" in page
    assert "<it>" not in page
    assert 'href="store/b/' in page


def test_nightly_files_of_one_name_keep_a_suite_and_a_row_each(files: Path) -> None:
    (files / "b.toml").write_text('name = "a"\n')
    night(files, Runner(), seeds=1)
    out = files.parent / "out"
    suites = JUnitXml.fromfile(str(out / "junit.xml"))
    assert [(suite.name, suite.tests) for suite in suites] == [("a.seed-1", 2), ("a.seed-1", 2)]
    assert (out / "summary.html").read_text().count('<tr class="valid">') == 2


def test_nightly_page_shows_hostile_text_as_text(files: Path) -> None:
    """What a broken run printed last stands in the page, and a folder's name in its links."""
    hostile = "\x1b[31m<script>alert('x')</script> &amp; {{ rows }} {% raw %}"
    files = files.rename(files.parent / 'runs "of" <b>')
    out = files.parent / "out"

    def runner(job: Job, _out: Path) -> Result:
        return Result(0, 1.0, hostile, str(files / job.name), (), ("<i>kill</i>",))

    nights([files], out, Function(runner), Settings(1))
    page = (out / "summary.html").read_text()
    read = PageReader()
    read.feed(page)
    assert not read.tags & {"script", "b", "i", "it"}
    assert sorted(read.links) == [f'../runs "of" <b>/{name}/report.html' for name in "ab"]
    assert [text for text in read.texts if "script" in text] == [hostile] * 2
    assert len([text for text in read.texts if "fired in none of 1 run: <i>kill</i>" in text]) == 2


class PageReader(HTMLParser):
    """What a browser would take for tags, links and texts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name == "href"]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_webhook_gets_the_night_and_a_dead_one_changes_nothing(files: Path) -> None:
    got: list[bytes] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    said: list[str] = []
    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        Thread(target=server.handle_request, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/hook"
        assert nights([files], files.parent / "out", Runner({("b", 1): 1}), Settings(1, webhook=url), said) == 1
    assert said[-1] == "webhook: 204"
    posted = json.loads(got[0])
    assert (posted["verdict"], posted["counts"]["valid"], posted["runs"][0]["name"]) == ("invalid", 1, "b")
    assert "| b | 1 | invalid |" in posted["text"]
    assert nights([files], files.parent / "out", Runner(), Settings(1, webhook=url), said) == 0
    assert "did not take the night" in said[-1]


def test_good_runs_are_removed_by_size_and_failing_ones_never(files: Path) -> None:
    runner = Runner({("b", 1): 1, ("b", 2): 255})
    nights([files], files.parent / "out", runner, Settings(2, keep=Keep(gb=0)))
    out = files.parent / "out"
    assert [path.parent.name for path in out.glob("store/*/2*")] == ["b"]
    with open_history(out) as history:
        assert {row.name: row.removed is None for row in history.of_night(1) if row.seed == 1} == {
            "a": False,
            "b": True,
        }
    assert "<td>" in (out / "summary.html").read_text()


def test_good_runs_are_removed_by_age(files: Path) -> None:
    out = files.parent / "out"
    nights([files / "a.toml"], out, Runner(), Settings(1))
    with open_history(out) as history:
        assert remove_old(history, Keep(days=1), out) == []
        (said,) = remove_old(history, Keep(days=1), out, now_s=time.time() + 90_000)
        assert said.startswith("removed 1 good runs")
        assert remove_old(history, Keep(days=1), out, now_s=time.time() + 90_000) == []
    assert list(out.glob("store/a/*")) == []


def test_history_that_is_none_is_refused_and_left_alone(tmp_path: Path, files: Path) -> None:
    out = files.parent / "out"
    out.mkdir()
    (out / "history.sqlite").write_text("no database, but long enough to be taken for one" * 40)
    with pytest.raises(StoreError, match=r"history.sqlite: cannot be used as a history of nights"):
        night(files, Runner())
    assert (out / "history.sqlite").read_text().startswith("no database")
