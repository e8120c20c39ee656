"""The report, looked at in a real headless browser: it draws, it escapes, it asks the network for nothing.

What a script saw inside the page comes out as an attribute of the body, because a dumped page is all that there is to
look at.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from harness.report import ReportError, build
from tests.support.sample_run import FAULT, RESULTS, SERIES, witness, write_sample_run

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
)
PLOTS = 'const plots = [...document.querySelectorAll("[data-chart] .plot")];'
DRAG = """
const drag = (plot, from, to) => {
  const area = plot.getBoundingClientRect(), y = area.top + area.height / 2;
  for (const [name, share] of [["pointerdown", from], ["pointermove", to], ["pointerup", to]])
    plot.dispatchEvent(new PointerEvent(name, { clientX: area.left + area.width * share, clientY: y, bubbles: true }));
};
"""


def _browser() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert found, "no Chromium: apt-get install -y chromium (make test installs it as root)"
    return found


def _dump_dom(page: Path, *options: str, width: int = 1200) -> tuple[str, str]:
    done = subprocess.run(
        [
            _browser(),
            *CHROMIUM,
            f"--window-size={width},4000",
            *options,
            f"--user-data-dir={page.parent / 'profile'}",
            "--dump-dom",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout, done.stderr


def _seen(page: Path, script: str, *options: str) -> Any:
    """What the script returns inside the page, as JSON has it."""
    probe = page.with_name("probe.html")
    code = f"document.body.dataset.seen = JSON.stringify((() => {{ {script} }})());"
    text = page.read_text(encoding="utf-8").replace("</body>", f"<script>{code}</script></body>")
    probe.write_text(text, encoding="utf-8")
    dom, log = _dump_dom(probe, *options)
    assert "Uncaught" not in log, log
    found = re.search(r'data-seen="([^"]*)"', dom)
    assert found, log
    return json.loads(html.unescape(found[1]))


@pytest.mark.browser
def test_report_of_an_invalid_run_shows_sentence_counterexample_and_charts(tmp_path: Path) -> None:
    dom, log = _dump_dom(build(write_sample_run(tmp_path)))
    assert 'id="sentence">Invalid: 1 acknowledged record lost.' in dom
    assert "value 17 &lt;m2&gt; at hw-0 offset 2" in dom
    assert "Faults active meanwhile: kill n1" in dom
    # Each chart was really drawn: the script put its drawing into the page.
    assert len(re.findall(r'<svg [^>]*data-from="0.000" data-to="6.000"', dom)) == 10
    assert "n2 led, epoch 1" in dom
    assert "1 kill n1" in dom
    assert "Uncaught" not in log


@pytest.mark.browser
def test_drag_over_one_chart_zooms_all_and_double_click_shows_the_whole_run(tmp_path: Path) -> None:
    script = (
        PLOTS
        + DRAG
        + """
        const view = ({ from, to }) => `${from} ${to}`;
        const views = () => plots.map((plot) => view(plot.querySelector("svg").dataset));
        const before = views();
        drag(plots[2], 0.4, 0.6);
        const zoomed = views();
        plots[3].dispatchEvent(new MouseEvent("dblclick", { bubbles: true }));
        return { before, zoomed, after: views() };
        """
    )
    seen = _seen(build(write_sample_run(tmp_path)), script)
    assert len(seen["before"]) == 10
    assert set(seen["before"]) == {"0.000 6.000"} == set(seen["after"])
    (zoomed,) = set(seen["zoomed"])
    from_s, to_s = map(float, zoomed.split())
    assert 1.5 < from_s < 2.7 < 3.2 < to_s < 4


@pytest.mark.browser
def test_cursor_stands_in_all_charts_with_time_faults_and_values(tmp_path: Path) -> None:
    script = (
        PLOTS
        + """
        const area = plots[4].getBoundingClientRect();
        const clientX = area.left + area.width * 0.62;
        plots[4].dispatchEvent(new PointerEvent("pointermove", { clientX, bubbles: true }));
        return {
          shown: plots.filter((plot) => plot.querySelector(".cursor").getAttribute("visibility") === "visible").length,
          all: plots.length,
          time: document.getElementById("cursor-time").textContent,
          values: [...document.querySelectorAll(".legend span")].map((one) => one.textContent),
        };
        """
    )
    seen = _seen(build(write_sample_run(tmp_path)), script)
    assert seen["shown"] == seen["all"]
    assert re.fullmatch(r"3\.\d{3} s: 1 kill n1", seen["time"])
    # At that time nobody sent, while the high watermark stood at 3.
    assert "3" in seen["values"]
    assert "" in seen["values"]


@pytest.mark.browser
def test_name_in_a_legend_hides_its_line(tmp_path: Path) -> None:
    script = """
        const figure = document.querySelector("figure.chart");
        const lines = () => figure.querySelectorAll("path.line").length;
        const before = lines();
        figure.querySelector(".legend button").click();
        const hidden = lines();
        figure.querySelector(".legend button").click();
        return [before, hidden, lines()];
    """
    before, hidden, after = _seen(build(write_sample_run(tmp_path)), script)
    assert (hidden, after) == (before - 1, before)


@pytest.mark.browser
def test_counterexample_leads_to_its_seconds_in_the_charts(tmp_path: Path) -> None:
    script = (
        PLOTS + 'document.querySelector("article [data-zoom]").click(); return plots[0].querySelector("svg").dataset;'
    )
    seen = _seen(build(write_sample_run(tmp_path)), script)
    assert (seen["from"], seen["to"]) == ("0.000", "6.000")
    short = {**RESULTS["checkers"]["lost-write"]}
    short["witnesses"] = [witness("gone", from_ns=2_000_000_000, to_ns=3_000_000_000, operations=[])]
    seen = _seen(build(write_sample_run(tmp_path, checkers={"lost-write": short})), script)
    assert (seen["from"], seen["to"]) == ("1.000", "4.000")


@pytest.mark.browser
def test_report_is_dark_where_the_reader_wants_it(tmp_path: Path) -> None:
    script = """
        const style = (selector, what) => getComputedStyle(document.querySelector(selector))[what];
        const light = (colour) => colour.match(/\\d+/g).slice(0, 3).reduce((sum, one) => sum + Number(one), 0) / 3;
        const [page, ink, chart] = [["body", "backgroundColor"], ["body", "color"], [".plot text", "fill"]];
        return [page, ink, chart].map((one) => light(style(...one)));
    """
    report = build(write_sample_run(tmp_path))
    page, ink, chart = _seen(report, script, "--blink-settings=preferredColorScheme=1")
    assert page > 240 > 128 > chart > ink
    page, ink, chart = _seen(report, script, "--blink-settings=preferredColorScheme=0")
    assert page < 40 < 128 < chart < ink


@pytest.mark.browser
@pytest.mark.parametrize("width", [340, 420, 660, 800])
def test_report_is_as_wide_as_a_phone_or_tablet_and_breaks_no_number(tmp_path: Path, width: int) -> None:
    """In a frame of that width: windows of a headless browser are never narrower than 500 px."""
    report = build(write_sample_run(tmp_path))
    outer = tmp_path / "phone.html"
    inner = html.escape(report.read_text(encoding="utf-8"), quote=True)
    script = """
        addEventListener("load", () => {
          const page = document.querySelector("iframe").contentDocument;
          const lines = (one) => {
            const text = page.createRange();
            text.selectNodeContents(one);
            return new Set([...text.getClientRects()].map((rect) => Math.round(rect.top))).size;
          };
          const numbers = [...page.querySelectorAll("span.n, b.n, td.n")].filter((one) => one.innerText.trim());
          document.body.dataset.seen = JSON.stringify({
            wide: page.documentElement.scrollWidth, shown: page.documentElement.clientWidth,
            broken: numbers.filter((one) => lines(one) > 1).map((one) => one.textContent),
            numbers: numbers.length,
            drawn: page.querySelectorAll("[data-chart] svg").length,
          });
        });
    """
    outer.write_text(
        f'<!doctype html><body><iframe style="width:{width}px;height:3000px;border:0" srcdoc="{inner}"></iframe>'
        f"<script>{script}</script></body>",
        encoding="utf-8",
    )
    dom, log = _dump_dom(outer)
    found = re.search(r'data-seen="([^"]*)"', dom)
    assert found, log
    seen = json.loads(html.unescape(found[1]))
    assert seen["wide"] <= seen["shown"] <= width
    assert (seen["broken"], seen["drawn"]) == ([], 10)
    assert seen["numbers"] > 30


@pytest.mark.browser
def test_what_is_folded_away_is_printed(tmp_path: Path) -> None:
    script = """
        const open = () => document.querySelectorAll("details[open]").length;
        const before = open();
        dispatchEvent(new Event("beforeprint"));
        const printed = open();
        dispatchEvent(new Event("afterprint"));
        return [before, printed, open()];
    """
    assert _seen(build(write_sample_run(tmp_path)), script) == [0, 2, 0]


@pytest.mark.browser
def test_names_of_many_faults_do_not_stand_on_each_other(tmp_path: Path) -> None:
    faults = [
        {**FAULT, "fault_id": nth, "fault": "clock-strobe", "start_ns": nth * 100_000_000, "stop_ns": nth * 100_000_000}
        for nth in range(1, 30)
    ]
    script = """
        const box = document.querySelector(".faultstrip svg").getBoundingClientRect();
        const names = [...document.querySelectorAll(".faultstrip .fault")].map((one) => one.getBoundingClientRect());
        const apart = (a, b) => a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top;
        let over = 0;
        names.forEach((a, nth) => names.slice(nth + 1).forEach((b) => { if (!apart(a, b)) over += 1; }));
        return [names.length, over, names.filter((one) => one.right > box.right + 1).length];
    """
    assert _seen(build(write_sample_run(tmp_path, faults=faults)), script) == [29, 0, 0]


def test_report_of_a_minute_is_smaller_than_two_megabytes(tmp_path: Path) -> None:
    """As many points as series.json has at most, on four partitions, and ten findings."""
    write_sample_run(tmp_path)
    offsets = [[nth * 0.138 + 0.001, broker, nth * 7 + broker] for nth in range(600) for broker in (1, 2, 3)]
    partition = {**SERIES["partitions"]["hw-0"], "hw": offsets, "leo": [[t + 0.001, b, o + 9] for t, b, o in offsets]}
    calls = ("send", "poll", "list_offsets", "join", "sync", "heartbeat", "commit_offsets", "fetch_offsets")
    points = [
        {"t_s": nth / 61, "f": "send", "ms": 1 + nth % 977 / 3, "outcome": ("ok", "fail", "info")[nth % 3]}
        for nth in range(5000)
    ]
    latency = [
        {"second": s, "f": f, "p50_ms": 1.2345678, "p95_ms": 2.3456789, "p99_ms": 3.456789, "max_ms": 9.87654321}
        for s in range(83)
        for f in calls
    ]
    clock = [{"node": f"n{n}", "points": [[t / 4 + 0.0001234, t * 1.2345678] for t in range(332)]} for n in (1, 2, 3)]
    series = {
        "duration_ns": 83_000_000_000,
        "rate": [{"second": s, "f": f, "ok": s, "fail": s % 3, "info": s % 2} for s in range(83) for f in calls],
        "latency": latency,
        "latency_points": points,
        "partitions": {f"hw-{number}": partition for number in range(4)},
        "clock": clock,
        "faults": [FAULT],
    }
    (tmp_path / "series.json").write_text(json.dumps(series), encoding="utf-8")
    lost = {**RESULTS["checkers"]["lost-write"], "witnesses": [witness("gone", offset=nth * 400) for nth in range(10)]}
    (tmp_path / "results.json").write_text(json.dumps({**RESULTS, "checkers": {"lost-write": lost}}), encoding="utf-8")
    assert build(tmp_path).stat().st_size < 2_000_000


def test_report_names_no_address_outside_itself(tmp_path: Path) -> None:
    page = build(write_sample_run(tmp_path)).read_text(encoding="utf-8")
    assert not re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=[\"'](?!data:)[^\"'#]", page)
    assert not re.findall(r"url\((?!#)|@import|fetch\(|XMLHttpRequest", page)


def test_report_shows_raw_lines_once_and_folded_away(tmp_path: Path) -> None:
    page = build(write_sample_run(tmp_path)).read_text(encoding="utf-8")
    (article,) = re.findall(r"<article.*?</article>", page, re.DOTALL)
    assert article.count("<details>") == 2
    assert article.count("&#34;base_offset&#34;") + article.count('"base_offset"') == 1
    assert "<details open" not in page


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
