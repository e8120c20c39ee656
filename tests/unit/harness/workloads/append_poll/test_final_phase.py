"""Which runs delete records for their age, and have to end that before they are read."""

from __future__ import annotations

import pytest

from harness.plan.run_file import parse_plan
from harness.workloads.append_poll.final_phase import deletes_by_time

pytestmark = pytest.mark.guarantee("H6")


@pytest.mark.parametrize(
    ("text", "deletes"),
    [
        ("", False),
        ('[topic]\nname = "hw"\n[topic.config]\n"retention.ms" = 25000\n', True),
        ('[topic]\nname = "hw"\n[topic.config]\n"retention.ms" = -1\n', False),
        ('[topic]\nname = "hw"\n[topic.config]\n"retention.bytes" = 25000\n', False),
        ('[system.settings]\n"log.retention.minutes" = 1\n', True),
        (
            '[system.settings]\n"log.retention.ms" = 1000\n[topic]\nname = "hw"\n[topic.config]\n"retention.ms" = -1\n',
            False,
        ),
    ],
)
def test_run_deletes_by_time_where_its_file_says_how_old_records_may_be(text: str, deletes: bool) -> None:
    assert deletes_by_time(parse_plan("x.toml", 'name = "x"\n' + text, {})) == deletes
