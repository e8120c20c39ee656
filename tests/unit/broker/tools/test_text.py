from __future__ import annotations

import pytest

from broker.tools.client.errors import ToolError
from broker.tools.text import broker_ids, matching, replica_assignment, topic_configs

NAMES = ["__consumer_offsets", "a", "a.b", "ab", "b"]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (None, NAMES),
        ("a", ["a"]),
        ("a.b", ["a.b"]),
        ("a.*", ["a", "a.b", "ab"]),
        ("a, b", ["a", "b"]),
        ('"a|b"', ["a", "b"]),
        ("none", []),
    ],
)
def test_topics_are_meant_by_whole_names(wanted: str | None, found: list[str]) -> None:
    assert matching(NAMES, wanted, exclude_internal=False) == found


def test_internal_topics_can_be_left_out() -> None:
    assert matching(NAMES, None, exclude_internal=True) == NAMES[1:]


def test_invalid_regular_expression_is_refused() -> None:
    with pytest.raises(ToolError, match=r"\( is an invalid regex"):
        matching(NAMES, "(", exclude_internal=False)


def test_replica_assignment_is_one_list_per_partition() -> None:
    assert replica_assignment("1:2,2:3") == {0: [1, 2], 1: [2, 3]}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1:1", "may not contain duplicate entries: 1"),
        ("1:2,3", "Partition 1 has different replication factor"),
        ("1:x", "'1:x': broker ids separated by ':'"),
    ],
)
def test_wrong_replica_assignment_is_refused(text: str, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        replica_assignment(text)


def test_topic_configs_are_pairs() -> None:
    assert topic_configs(["a=1", " b = x,y "]) == {"a": "1", "b": "x,y"}
    for wrong in ("a", "a=", "=1", "a=b=c"):
        with pytest.raises(ToolError, match="must be in the format"):
            topic_configs([wrong])


def test_broker_ids_are_numbers() -> None:
    assert broker_ids("1,2") == [1, 2]
    for wrong in ("1,,2", "1_0", "\uff11", str(2**31)):
        with pytest.raises(ToolError, match=f"'{wrong}'"):
            broker_ids(wrong)
