"""Whether a broker met the damage beneath it: by what its event log says of openings, else by its having started."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from checkers.coverage.damage_met import Meeting, Opening, as_json, meetings, partition_of, unmet
from checkers.history.faults import Fault
from tests.support.known_faults import effects_of

pytestmark = pytest.mark.guarantee("H8")

FILE = "hw-0/00000000000000000294.log"
OF_FILES = frozenset({"damages-files"})
UP = Fault(
    4, "bitflip", ("n2",), 100, 200, True, "", None, True, json.dumps({"while": "up"}), file=FILE, effects=OF_FILES
)
DOWN = replace(UP, params_json=json.dumps({"while": "down"}))
BEFORE = Opening("n2", "hw-0", 90)


@pytest.mark.parametrize(
    ("fault", "openings", "met"),
    [
        (UP, [BEFORE], None),
        (UP, [BEFORE, Opening("n2", "hw-1", 120), Opening("n1", "hw-0", 120), Opening("n2", None, 120)], None),
        (UP, [BEFORE, Opening("n2", "hw-0", 320), Opening("n2", "hw-0", 300)], Meeting("opened", 300, "hw-0")),
        (UP, [Opening("n2", "hw-0", 130), Opening("n2", "hw-0", 120, True)], Meeting("cut", 120, "hw-0")),
        # What it found later may be another's doing.
        (UP, [Opening("n2", "hw-0", 120), Opening("n2", "hw-0", 130, True)], Meeting("opened", 120, "hw-0")),
        # It was started, and did not open this log.
        (DOWN, [BEFORE, Opening("n2", None, 190)], None),
        (DOWN, [BEFORE, Opening("n2", "hw-0", 190)], Meeting("opened", 190, "hw-0")),
        # No event log, or an older history.
        (DOWN, [], Meeting("started", 200, "hw-0")),
        (replace(DOWN, file=None), [BEFORE], Meeting("started", 200)),
        (replace(DOWN, stop_observed=False), [], None),
        (replace(DOWN, stop_ns=None), [], None),
        (replace(UP, file=None), [BEFORE, Opening("n2", "hw-0", 190)], None),
        # A file of the log dir is read at a start.
        (replace(UP, file="recovery-point-offset-checkpoint"), [BEFORE, Opening("n2", "hw-0", 190)], None),
        (replace(UP, file="recovery-point-offset-checkpoint"), [Opening("n2", None, 190)], Meeting("started", 190)),
        (replace(UP, observed=False), [Opening("n2", "hw-0", 190)], None),
        (replace(UP, fault="kill", effects=effects_of("kill")), [Opening("n2", "hw-0", 190)], None),
    ],
)
def test_meeting_is_what_the_broker_did_after_the_damage(
    fault: Fault, openings: list[Opening], met: Meeting | None
) -> None:
    assert meetings([fault], openings).get(fault.fault_id) == met


def test_damage_that_nothing_shows_to_have_been_met_is_named() -> None:
    kill = replace(UP, fault="kill", fault_id=5, effects=effects_of("kill"))
    assert unmet([UP, kill], {}) == [f"bitflip of {FILE} on n2"]
    assert unmet([UP, kill], {4: Meeting("opened", 300, "hw-0")}) == []


def test_results_say_of_file_faults_alone_how_they_were_met() -> None:
    assert as_json(UP, {})["met"] is None
    meeting = as_json(UP, {4: Meeting("cut", 130, "hw-0")})
    assert (meeting["file"], meeting["met"]) == (FILE, {"how": "cut", "at_ns": 130})
    assert "met" not in as_json(replace(UP, fault="kill", effects=effects_of("kill")), {})


@pytest.mark.parametrize(
    ("file", "p"),
    [(FILE, "hw-0"), ("d1/hw-12/leader-epoch-checkpoint", "hw-12"), ("d1/recovery-point-offset-checkpoint", None)],
)
def test_partition_of_a_file_is_its_folder(file: str, p: str | None) -> None:
    assert partition_of(replace(UP, file=file)) == p
