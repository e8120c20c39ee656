"""Plans of a reassignment, what they move and need of throttles, and the lines about them."""

from __future__ import annotations

import json
from random import Random

import pytest

from broker.model.ids import BrokerId
from broker.tools.client.admin import Reassignment
from broker.tools.client.errors import ToolError
from broker.tools.json_files import Placement, placements
from broker.tools.reassign import moves
from broker.tools.reassign.command import checked, proposal
from broker.tools.reassign.log_dirs import Replica, Where, states, wanted
from broker.tools.reassign.moves import Found, Move

ONE, TWO = ("t", 0), ("t", 1)
ONGOING = {ONE: Reassignment((1, 2, 3), adding=(3,), removing=(1,))}


def placement(*replicas: int, where: tuple[str, int] = ONE) -> Placement:
    return Placement(where, list(replicas), ["any"] * len(replicas))


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ([], "Partition reassignment list cannot be empty"),
        ([placement()], "Partition replica list cannot be empty"),
        ([placement(1), placement(2)], "Partition reassignment contains duplicate topic partitions: t-0"),
        ([placement(1, 2, 1)], "may not contain duplicate entries: t-0 contains multiple entries for 1"),
    ],
)
def test_plan_that_cannot_be_meant_is_refused(plan: list[Placement], said: str) -> None:
    with pytest.raises(ToolError, match=said):
        moves.checked(plan)


def test_assignment_is_written_as_the_plan_that_brings_it_back() -> None:
    text = moves.as_json({TWO: [2, 3], ONE: (1, 2)})
    assert text == (
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2],"log_dirs":["any","any"]},'
        '{"topic":"t","partition":1,"replicas":[2,3],"log_dirs":["any","any"]}]}'
    )
    assert moves.checked(placements(json.loads(text))) == {ONE: [1, 2], TWO: [2, 3]}


def test_sources_of_what_goes_on_already_stay_sources() -> None:
    found = moves.moves(ONGOING, {ONE: [3, 4], TWO: [2, 5]}, {ONE: (1, 2, 3), TWO: (1, 2)})
    assert found == {
        ONE: Move(frozenset({1, 2}), frozenset({3, 4})),
        TWO: Move(frozenset({1, 2}), frozenset({5})),
    }
    assert moves.brokers_of(found) == [1, 2, 3, 4, 5]
    assert moves.throttled_replicas(found) == {"t": ("0:1,0:2,1:1,1:2", "0:3,0:4,1:5")}


def test_ongoing_reassignments_are_listed() -> None:
    assert moves.listed({}) == ["No partition reassignments found."]
    assert moves.listed(ONGOING | {TWO: Reassignment((1, 2), (), ())}) == [
        "Current partition reassignments:",
        "t-0: replicas: 1,2,3. adding: 3. removing: 1.",
        "t-1: replicas: 1,2.",
    ]


def test_state_of_each_partition_is_said() -> None:
    found = {
        ONE: Found((1, 2), (1, 2), True),
        TWO: Found((1, 2, 3), (2, 3), False),
        ("u", 0): Found((1, 2), (2, 1), True),
    }
    assert moves.states(found) == [
        "Status of partition reassignment:",
        "Reassignment of partition t-0 is completed.",
        "Reassignment of partition t-1 is still in progress.",
        "There is no active reassignment of partition u-0, but replica set is 1,2 rather than 2,1.",
    ]


def test_log_dirs_of_a_plan_are_watched_where_they_are_named() -> None:
    plan = [Placement(ONE, [1, 2], ["/a", "any"]), Placement(TWO, [3], ["/b"])]
    assert wanted(plan) == {Replica(1, "t", 0): "/a", Replica(3, "t", 1): "/b"}
    targets = {Replica(broker, "t", 0): "/a" for broker in range(1, 6)}
    found = dict(
        zip(
            targets,
            (Where("/a", None), Where("/b", None), Where("/b", "/a"), Where("/b", "/c"), Where(None, None)),
            strict=True,
        )
    )
    ongoing, lines = states(targets, found)
    assert ongoing
    assert lines == [
        "Reassignment of replica t-0-1 completed successfully.",
        "Partition t-0 on broker 2 is not being moved from log dir /b to /a.",
        "Reassignment of replica t-0-3 is still in progress.",
        "Partition t-0 on broker 4 is being moved to log dir /c instead of /a.",
        "Partition t-0 is not found in any live log dir on broker 5. There is likely an offline log directory on the "
        "broker.",
    ]
    assert not states({Replica(1, "t", 0): "/a"}, found)[0]


def test_proposal_keeps_numbers_and_spreads_over_the_brokers() -> None:
    current = {("t", index): (1, 2) for index in range(4)}
    found = proposal(current, {BrokerId(3): None, BrokerId(4): None}, Random(1))
    assert set(found) == set(current)
    assert all(sorted(replicas) == [3, 4] for replicas in found.values())
    with pytest.raises(ToolError, match="Replication factor: 2 larger than available brokers: 1"):
        proposal(current, {BrokerId(3): None}, Random(1))


SERVER = ("--bootstrap-server", "a:1")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "Command must include exactly one action: --generate, --execute, --verify, --cancel or --list"),
        ("--execute", 'Missing required argument "[reassignment-json-file]"'),
        ("--generate --broker-list 1", 'Missing required argument "[topics-to-move-json-file]"'),
        ("--list --additional", 'Option "[additional]" can\'t be used with action "[list]"'),
        (
            "--verify --reassignment-json-file f --throttle 5",
            'Option "[throttle]" can\'t be used with action "[verify]"',
        ),
    ],
)
def test_wrong_options_end_with_1_and_say_why(capsys: pytest.CaptureFixture[str], words: str, said: str) -> None:
    with pytest.raises(SystemExit) as ended:
        checked([*SERVER, *words.split()])
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith(said)
