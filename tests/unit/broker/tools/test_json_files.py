from __future__ import annotations

from pathlib import Path

import pytest

from broker.tools.client.errors import ToolError
from broker.tools.json_files import Placement, election_partitions, load, placements, topics_to_move


def test_partitions_to_elect_leaders_for() -> None:
    data = {"partitions": [{"topic": "t", "partition": 1}, {"topic": "u", "partition": 0}]}
    assert election_partitions(data) == [("t", 1), ("u", 0)]
    with pytest.raises(ToolError, match='missing "partitions" field'):
        election_partitions({})
    with pytest.raises(ToolError, match="duplicate partitions: t-1"):
        election_partitions({"partitions": data["partitions"][:1] * 2})


def test_topics_to_move() -> None:
    assert topics_to_move({"version": 1, "topics": [{"topic": "t"}, {"topic": "u"}]}) == ["t", "u"]
    with pytest.raises(ToolError, match="Not supported version field value 2"):
        topics_to_move({"version": 2, "topics": []})
    with pytest.raises(ToolError, match="duplicate entries"):
        topics_to_move({"topics": [{"topic": "t"}, {"topic": "t"}]})


def test_replicas_to_have_and_their_log_dirs() -> None:
    entry = {"topic": "t", "partition": 0, "replicas": [1, 2]}
    assert placements({"partitions": [entry]}) == [Placement(("t", 0), [1, 2], ["any", "any"])]
    assert placements({"partitions": [entry | {"log_dirs": ["/a", "any"]}]})[0].log_dirs == ["/a", "any"]
    with pytest.raises(ToolError, match="different from size of log dirs list"):
        placements({"partitions": [entry | {"log_dirs": ["/a"]}]})


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([], "not a JSON object with 'partitions'"),
        ({"partitions": 5}, "'partitions' must be a list of objects, found 5"),
        ({"partitions": [{"topic": 1}]}, "'topic' must be a string, found 1"),
        ({"partitions": [{"topic": "t", "partition": True}]}, "'partition' must be a 32-bit whole number, found true"),
        ({"partitions": [{"topic": "t", "partition": 2**31}]}, "'partition' must be a 32-bit whole number, found 2147"),
        (
            {"partitions": [{"topic": "t", "partition": 0, "replicas": ["1"]}]},
            r"'replicas' must be a list of 32-bit whole numbers, found \[.1.\]",
        ),
    ],
)
def test_wrong_value_is_named(data: object, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        placements(data)


def test_brackets_without_end_are_refused_with_the_file(tmp_path: Path) -> None:
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 100_000)
    with pytest.raises(ToolError, match=r"deep\.json: brackets are nested too deeply"):
        load(str(deep))
