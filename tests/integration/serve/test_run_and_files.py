"""One run as a real server gives it: its checkers, its files and nothing outside them."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

import pytest

from harness.report import build
from harness.serve.run_pages import WINDOW
from tests.support.browser import browser
from tests.support.served import STAMP, served, write_results, write_run

pytestmark = pytest.mark.guarantee("V6")

HERE = f"/run/demo/{STAMP}"


def test_run_says_verdict_checkers_and_files(tmp_path: Path) -> None:
    folder = write_run(tmp_path, "demo")
    (folder / "evidence" / "n1").mkdir(parents=True)
    (folder / "evidence" / "n1" / "a b#?.log").write_text("<b>started</b>", encoding="utf-8")
    with served(tmp_path) as server:
        page = server.get(f"{HERE}/").text
        assert "1 of 3 acknowledged records is gone." in page
        assert page.index("Lost write") < page.index("Availability (measured)")
        assert f'href="{HERE}/view/evidence/n1/a%20b%23%3F.log"' in page
        assert f'href="{HERE}/report"' not in page
        log = server.get(f"{HERE}/view/evidence/n1/a%20b%23%3F.log").text
        assert "&lt;b&gt;started" in log
        kept = server.get(f"{HERE}/raw/evidence/n1/a%20b%23%3F.log")
        assert (kept.body, kept.headers["content-disposition"]) == (b"<b>started</b>", "attachment")
        assert kept.headers["content-type"] == "application/octet-stream"
        assert server.get(f"/run/demo/{STAMP}x/").status == 404


def test_big_file_is_shown_part_by_part(tmp_path: Path) -> None:
    folder = write_run(tmp_path, "demo")
    (folder / "big.log").write_bytes(b"a" * WINDOW + b"\xff\0b" + b"c" * WINDOW)
    with served(tmp_path) as server:
        first = server.get(f"{HERE}/view/big.log").text
        assert f"Bytes 0 to {WINDOW:,} of {2 * WINDOW + 3:,}" in first
        assert f'<a href="?from={WINDOW}">Next</a>' in first
        assert "\ufffd\ufffdbcc" in server.get(f"{HERE}/view/big.log?from={WINDOW}").text
        assert server.get(f"{HERE}/view/big.log?from=999999999999").status == 200
        assert [server.get(f"{HERE}/view/big.log?from={bad}").status for bad in ("x", "-1", "9" * 30)] == [404] * 3
        assert len(server.get(f"{HERE}/raw/big.log").body) == 2 * WINDOW + 3


@pytest.mark.parametrize(
    "path",
    ["../../../secret", "..%2f..%2f..%2fsecret", "link", "folder/secret", "pipe", "evidence", "", "/etc/passwd", "%00"],
)
def test_nothing_outside_the_run_is_given(tmp_path: Path, path: str) -> None:
    (tmp_path / "secret").write_text("the secret", encoding="utf-8")
    folder = write_run(tmp_path / "store", "demo")
    (folder / "evidence").mkdir()
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "folder").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    (tmp_path / "store" / "demo" / "latest").symlink_to(STAMP)
    with served(tmp_path / "store") as server:
        for kind in ("view", "raw"):
            answer = server.get(f"{HERE}/{kind}/{path}")
            assert (answer.status, b"the secret" in answer.body) == (404, False)
        assert server.get("/run/demo/latest/").status == 404
        assert "a link, or no regular file" in server.get(f"{HERE}/").text


def test_run_of_any_name_has_a_page(tmp_path: Path) -> None:
    name = 'a "<b>?#%2f é'
    write_results(write_run(tmp_path, name), checkers={"x": {"verdict": "odd", "title": 3, "reasons": [1]}, "y": 1})
    with served(tmp_path) as server:
        assert f"/run/{quote(name, safe='')}/{STAMP}/" in server.get("/").text
        page = server.get(f"/run/{quote(name, safe='')}/{STAMP}/")
        assert page.status == 200
        assert '<span class="mark odd">odd</span>' in page.text


@pytest.mark.browser
def test_report_draws_and_cannot_read_other_pages(tmp_path: Path) -> None:
    store = tmp_path / "store"
    folder = write_run(store, "demo")
    script = (
        "document.title='ran';fetch('/').then(()=>{document.title='read'},()=>{document.title='refused'});"
        "try{localStorage.a=1;document.body.id='kept'}catch{}"
    )
    (folder / "report.html").write_text(f"<body><script>{script}</script>", encoding="utf-8")
    with served(store) as server, browser(tmp_path / "profile") as tab:
        assert f'href="{HERE}/report"' in server.get(f"{HERE}/").text
        tab.show(server.address.rstrip("/") + f"{HERE}/report")
        tab.until("document.title == 'refused'")
        assert tab.evaluate("document.body.id") == ""
        assert tab.evaluate("origin") == "null"


@pytest.mark.browser
def test_real_report_draws_under_the_policy(tmp_path: Path) -> None:
    store = tmp_path / "store"
    build(write_run(store, "demo"))
    with served(store) as server, browser(tmp_path / "profile") as tab:
        tab.show(server.address.rstrip("/") + f"{HERE}/report")
        tab.until("document.querySelectorAll('figure svg path, figure svg polyline').length >= 4")
