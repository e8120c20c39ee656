"""A run that goes on, watched: what its history says so far, again and again."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from harness.serve import live
from harness.serve.files import Refused
from harness.serve.live import Followers
from tests.support.browser import browser
from tests.support.served import STAMP, served, write_run

pytestmark = pytest.mark.guarantee("V6")

HERE = f"/run/demo/{STAMP}"
S = 1_000_000_000


def phase(at_s: float, name: str) -> dict[str, object]:
    return {"kind": "mark", "f": "phase", "phase": name, "type": "info", "time_ns": int(at_s * S)}


def sends(first: int, at_s: float, count: int = 10) -> list[dict[str, object]]:
    lines: list[dict[str, object]] = []
    for number in range(first, first + count):
        common = {"kind": "client", "f": "send", "partition": 1, "node": "n1"}
        lines.append({**common, "type": "invoke", "index": 2 * number, "time_ns": int(at_s * S)})
        done = {"index": 2 * number + 1, "invoke": 2 * number, "hw": number, "time_ns": int((at_s + 0.008) * S)}
        lines.append({**common, "type": "ok", **done})
    return lines


def fault(at_s: float, f: str) -> dict[str, object]:
    return {"kind": "nemesis", "f": f, "fault": "kill", "fault_id": 3, "targets": ["n2"], "time_ns": int(at_s * S)}


def add(run: Path, *lines: dict[str, object] | bytes) -> None:
    with (run / "history.jsonl").open("ab") as file:
        for line in lines:
            file.write(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """One that goes on, whose history is empty."""
    folder = write_run(
        tmp_path, "demo", judged=False, finished=False, aborted=None, origin_wall_ns=time.time_ns() - 20 * S
    )
    (folder / "history.jsonl").write_bytes(b"")
    return folder


def test_history_is_read_on_from_look_to_look(tmp_path: Path, run: Path) -> None:
    followers = Followers(tmp_path)
    add(run, phase(0, "setup"), phase(3, "main"), *sends(0, 4.0), fault(5, "start"))
    first = followers.look("demo", STAMP, 6.0)
    assert (first.picture.phase.name, first.picture.phase.elapsed_s, first.picture.totals["ok"]) == ("main", 3.0, 10)
    assert [(one.text, one.age_s) for one in first.picture.faults] == [("kill n2", 1.0)]
    assert (first.quiet_s, first.read, first.passed_over) == (1.0, first.size, 0)
    torn = json.dumps(phase(8, "heal")).encode()
    add(run, *sends(10, 7.0), fault(7.5, "stop"), torn[:20])
    second = followers.look("demo", STAMP, 9.0)
    assert (second.picture.totals["ok"], second.picture.faults_done, second.picture.phase.name) == (20, 1, "main")
    assert second.picture.p50_ms == pytest.approx(8.0)
    assert sum(second.picture.ok_by_second) == 20
    add(run, torn[20:] + b"\n")
    assert followers.look("demo", STAMP, 10.0).picture.phase.name == "heal"


def test_long_history_is_read_a_piece_at_a_look(tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_AT_ONCE", 1000)
    add(run, *sends(0, 4.0, 100))
    followers = Followers(tmp_path)
    seen = followers.look("demo", STAMP, 100.0)
    assert (seen.read, seen.size > 10_000, seen.picture.elapsed_s < 5) == (1000, True, True)
    looks = 1
    while seen.read < seen.size:
        seen, looks = followers.look("demo", STAMP, 100.0), looks + 1
    assert (looks, seen.picture.totals["ok"]) == (-(-seen.size // 1000), 100)
    assert seen.picture.elapsed_s == 100.0


def test_lines_that_say_nothing_usable_are_counted_and_passed_over(tmp_path: Path, run: Path) -> None:
    bad = [b"{", b"[]", b"7", b"{}", b'{"time_ns":"x"}', b'{"time_ns":1,"kind":"client","type":"invoke"}', b"\xff\xfe"]
    bad.append(b'{"time_ns":2,"kind":"nemesis","f":"start","fault_id":[]}')
    add(run, *(line + b"\n" for line in bad), *sends(0, 4.0))
    seen = Followers(tmp_path).look("demo", STAMP, 5.0)
    assert (seen.passed_over, seen.picture.totals["ok"]) == (len(bad), 10)


def test_history_that_was_made_anew_is_read_from_its_start(tmp_path: Path, run: Path) -> None:
    followers = Followers(tmp_path)
    add(run, *sends(0, 4.0))
    assert followers.look("demo", STAMP, 5.0).picture.totals["ok"] == 10
    (run / "history.jsonl").write_bytes(b"")
    add(run, *sends(0, 1.0, 2))
    assert followers.look("demo", STAMP, 5.0).picture.totals["ok"] == 2
    (run / "history.jsonl").unlink()
    with pytest.raises(Refused):
        followers.look("demo", STAMP, 5.0)


def test_only_some_runs_are_kept_in_mind(tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "KEPT", 1)
    add(run, *sends(0, 4.0))
    write_run(tmp_path, "other")
    followers = Followers(tmp_path)
    for name in ("demo", "other", "demo"):
        seen = followers.look(name, STAMP, 5.0)
    assert seen.picture.totals["ok"] == 10


def test_page_of_a_run_that_goes_on_shows_itself_again_and_one_that_ended_does_not(tmp_path: Path, run: Path) -> None:
    add(run, phase(0, "setup"), phase(3, "main"), *sends(0, 4.0), fault(5, "start"))
    with served(tmp_path) as server:
        assert f'href="{HERE}/live"' in server.get(f"{HERE}/").text
        page = server.get(f"{HERE}/live").text
        for said in ('http-equiv="refresh"', "phase 2: main", "1 active: kill n2", "p50 not measured"):
            assert said in page, said
        (quiet_s,) = map(int, re.findall(r"no line for (\d+) s", page))
        # The last line is 15 s old, and the server took its time to start.
        assert 15 <= quiet_s < 15 + 120
        still = server.get(f"{HERE}/live?refresh=no").text
        assert 'http-equiv="refresh"' not in still
        assert "go on" in still
        described = json.loads((run / "run.json").read_text())
        (run / "run.json").write_text(json.dumps(described | {"finished": True}))
        ended = server.get(f"{HERE}/live").text
        assert 'http-equiv="refresh"' not in ended
        assert "no line for" not in ended
        assert f'href="{HERE}/live"' not in server.get(f"{HERE}/").text
        (run / "run.json").write_text(json.dumps(described | {"origin_wall_ns": 10**400}))
        assert server.get(f"{HERE}/live").status == 404


@pytest.mark.browser
def test_page_in_a_browser_moves_on_by_itself(tmp_path: Path, run: Path) -> None:
    add(run, phase(0, "setup"))
    with served(tmp_path) as server, browser(tmp_path / "profile") as tab:
        tab.show(f"{server.address.rstrip('/')}{HERE}/live")
        tab.until("document.querySelector('[role=status]')?.textContent.startsWith('phase 1: setup')")
        add(run, phase(3, "main"), *sends(0, 4.0))
        tab.until("document.querySelector('[role=status]')?.textContent.startsWith('phase 2: main')")
        # The same page, standing still: the other may be replaced just when it is read.
        tab.show(f"{server.address.rstrip('/')}{HERE}/live?refresh=no")
        spoken = tab.spoken()
        assert ("region", "Operations") in spoken
        assert ("region", "Partitions") in spoken
