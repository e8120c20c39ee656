"""Lines of a history that cannot be read are counted, and the first is named."""

from __future__ import annotations

import pytest

from harness.report.life.life import NoSuchPlace, life
from tests.support.life_files import history, run, run_files

pytestmark = pytest.mark.guarantee("V6")

_COMMON = {"kind": "client", "process": 3, "f": "send", "topic": "hw", "partition": 0, "phase": "main"}
SENT, DONE = history(
    {**_COMMON, "type": "invoke", "index": 0, "time_ns": 1_000_000_000, "values": [17], "acks": -1},
    {**_COMMON, "type": "ok", "index": 1, "invoke": 0, "time_ns": 1_010_000_000, "base_offset": 1},
)["history.jsonl"].splitlines(keepends=True)
TORN = DONE[:40] + b"\n"


def missing(*lines: bytes, finished: bool = True) -> tuple[str, ...]:
    found = life(run_files({"history.jsonl": b"".join(lines)}), run(finished=finished), "hw-0", 1, {})
    assert found.fates[0].startswith("Value 17: acknowledged")
    return found.missing


def test_lines_that_are_no_objects_are_counted() -> None:
    deep = b'{"partition":0,"topic":' + b"[" * 100_000 + b"\n"
    said = "history.jsonl: 4 lines cannot be read, the first is line 2; they are not told."
    damage = (TORN, b"\0" * 30 + b"\n", deep, b"[1]\n", b"\n")
    assert missing(SENT, *damage, DONE)[0] == said
    assert missing(SENT, TORN, DONE)[0] == "history.jsonl: line 2 cannot be read, and is not told."
    assert not any("history.jsonl" in text for text in missing(SENT, b'{"f": "other"} \n', b"\n", DONE))
    with pytest.raises(NoSuchPlace, match=r"'hw-7': not a partition of this run, .* 4 lines cannot be read"):
        life(run_files({"history.jsonl": b"".join((SENT, *damage, DONE))}), run(), "hw-7", 1, {})


def test_torn_last_line_is_said_where_the_run_was_finished() -> None:
    said = "history.jsonl: its last line has no end, and is not told: what came later may be missing."
    assert missing(SENT, DONE, DONE[:40])[0] == said
    assert said not in missing(SENT, DONE, DONE[:40], finished=False)
