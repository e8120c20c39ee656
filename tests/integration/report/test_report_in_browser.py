"""The report, looked at in a real headless browser: it draws, it escapes, it asks the network for nothing."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.report import ReportError, build
from tests.support.sample_run import write_sample_run

pytestmark = pytest.mark.guarantee("V6")

CHROMIUM = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-unsafe-swiftshader",
    "--enable-logging=stderr",
    "--virtual-time-budget=20000",
    "--window-size=1200,4000",
)


def _browser() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert found, "no Chromium: apt-get install -y chromium (make test installs it as root)"
    return found


def _dump_dom(page: Path, profile: Path) -> tuple[str, str]:
    done = subprocess.run(
        [_browser(), *CHROMIUM, f"--user-data-dir={profile}", "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout, done.stderr


@pytest.mark.browser
def test_report_of_an_invalid_run_shows_sentence_counterexample_and_charts(tmp_path: Path) -> None:
    report = build(write_sample_run(tmp_path))
    dom, log = _dump_dom(report, tmp_path / "profile")
    assert 'id="sentence">Invalid: 1 acknowledged record was lost.' in dom
    assert "value 17 &lt;m2&gt; at hw-0 offset 2" in dom
    assert "faults active: kill n1" in dom
    # Each chart was really drawn: the library put its drawing into the page.
    assert len(re.findall(r'class="main-svg"', dom)) >= 4
    assert "leader 2 (epoch 1)" in dom
    assert "Uncaught" not in log


def test_report_names_no_address_outside_itself(tmp_path: Path) -> None:
    page = build(write_sample_run(tmp_path)).read_text(encoding="utf-8")
    assert not re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=[\"'](?!data:)[^\"'#]", page)


def test_report_without_series_says_so(tmp_path: Path) -> None:
    write_sample_run(tmp_path)
    (tmp_path / "series.json").unlink()
    assert "series.json is missing" in build(tmp_path).read_text(encoding="utf-8")


def test_report_without_results_names_the_file(tmp_path: Path) -> None:
    write_sample_run(tmp_path)
    (tmp_path / "results.json").unlink()
    with pytest.raises(ReportError, match=r"results\.json is missing"):
        build(tmp_path)


def test_report_with_half_written_results_names_the_file(tmp_path: Path) -> None:
    write_sample_run(tmp_path)
    (tmp_path / "results.json").write_text(json.dumps({"a": 1})[:-2], encoding="utf-8")
    with pytest.raises(ReportError, match=r"results\.json is not JSON"):
        build(tmp_path)
