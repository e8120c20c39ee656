"""The event log's file: one line per event, gap-free, append-only."""

from __future__ import annotations

import json
from pathlib import Path

from broker.runtime.event_log import EventLog


def test_lines_reach_the_file_at_flush_with_every_field(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log = EventLog(str(path), 3, "ab12", lambda: 111, lambda: 222)
    log.emit("start", pid=1)
    log.emit("stop")
    assert path.read_text() == ""
    log.flush()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines == [
        {"e": "start", "b": 3, "i": "ab12", "s": 0, "w": 111, "m": 222, "pid": 1},
        {"e": "stop", "b": 3, "i": "ab12", "s": 1, "w": 111, "m": 222},
    ]
    log.close()


def test_next_incarnation_appends_behind_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"e":"start","b":3}\n{"e":"app')
    log = EventLog(str(path), 3, "cd34")
    log.emit_now("start")
    log.close()
    lines = path.read_text().splitlines()
    assert lines[1] == '{"e":"app'
    assert json.loads(lines[2])["i"] == "cd34"


def test_topics_that_are_made_anew_have_their_ids_in_names_of_partitions(tmp_path: Path) -> None:
    log = EventLog(str(tmp_path / "events.jsonl"), 3, "ab12", with_ids=["hw-anew0"])
    assert log.partition_name("hw-anew0", 1, "aB-1_c") == "hw-anew0~aB-1_c-1"
    assert log.partition_name("hw", 1, "aB-1_c") == "hw-1"
    # Of a topic from before there were ids.
    assert log.partition_name("hw-anew0", 1, "") == "hw-anew0-1"
    log.close()
