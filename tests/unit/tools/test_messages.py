"""`tools.messages`: a class is what Kafka's definition says, of the served versions; what it cannot say is refused."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from typing import Any

import pytest

from tools.messages import Unwritable, module, snake

REQUEST = {
    "apiKey": 60,
    "type": "request",
    "name": "DescribeClusterRequest",
    "validVersions": "0-2",
    "flexibleVersions": "0+",
    "fields": [{"name": "IncludeAll", "type": "bool", "versions": "0+"}],
}
RESPONSE = {**REQUEST, "type": "response", "name": "DescribeClusterResponse"}
ENTRY = {
    "name": "Entries",
    "type": "[]Entry",
    "versions": "0+",
    "fields": [
        {"name": "TopicId", "type": "uuid", "versions": "0+", "ignorable": True},
        {"name": "Rack", "type": "string", "versions": "0+", "nullableVersions": "0+", "default": "null"},
    ],
}


def written(fields: list[Mapping[str, Any]], **choices: Any) -> str:
    """The module for DescribeCluster, versions 0 and 1, whose response has these fields."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as jar:
        jar.writestr("common/message/DescribeClusterRequest.json", "// a comment\n" + json.dumps(REQUEST))
        jar.writestr("common/message/DescribeClusterResponse.json", json.dumps({**RESPONSE, "fields": fields}))
    with zipfile.ZipFile(packed) as jar:
        return module(jar, "describe_cluster", {"doc": "DescribeCluster.", **choices})


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ({"name": "Port", "type": "int32", "versions": "0+", "default": "-1"}, 'port: int = int32("0+", -1)'),
        ({"name": "Set", "type": "bool", "versions": "0+", "default": "true"}, 'set: bool = boolean("0+", True)'),
        ({"name": "Host", "type": "string", "versions": "0+"}, 'host: str = string("0+")'),
        ({"name": "Rate", "type": "float64", "versions": "0+"}, 'rate: float = float64("0+")'),
        ({"name": "Held", "type": "bytes", "versions": "0+"}, 'held: bytes = byte_string("0+")'),
        ({"name": "Ids", "type": "[]int64", "versions": "0+"}, 'ids: list[int] = int64_array("0+")'),
        ({"name": "Bits", "type": "int32", "versions": "0+", "default": "0x7f"}, 'bits: int = int32("0+", 127)'),
        (
            {"name": "Rack", "type": "string", "versions": "0+", "nullableVersions": "0+"},
            'rack: str | None = nullable_string("0+")',
        ),
        (
            {"name": "Rack", "type": "string", "versions": "0+", "nullableVersions": "2+"},
            'rack: str = string("0+")',
        ),
        (
            {"name": "Keys", "type": "[]string", "versions": "0+", "nullableVersions": "0+"},
            'keys: list[str] | None = nullable_string_array("0+")',
        ),
        (
            {"name": "Ids", "type": "[]int32", "versions": "0+", "tag": 3, "taggedVersions": "0+", "ignorable": True},
            'ids: list[int] = int32_array("0+", tag=3, tagged="0+", ignorable=True)',
        ),
    ],
)
def test_field_is_declared_as_its_definition_says(field: Mapping[str, Any], line: str) -> None:
    assert f"    {line}\n" in written([field])


def test_field_of_versions_that_are_not_served_is_left_out() -> None:
    assert "later" not in written([{"name": "Later", "type": "int32", "versions": "2+"}])


def test_struct_comes_before_the_message_that_holds_it() -> None:
    text = written([ENTRY])
    assert text.index("class Entry(Struct)") < text.index("class DescribeClusterResponse(Message)")
    assert '    entries: list[Entry] = array(Entry, "0+")\n' in text


def test_choices_rename_classes_and_fields_and_add_what_is_highwaters_own() -> None:
    choice = {
        "classes": {"Entry": "Row"},
        "fields": {"Row.rack": "where"},
        "own": {"Row": {"whole": {"kind": "boolean", "versions": "0+"}}},
    }
    text = written([ENTRY], DescribeClusterResponse=choice)
    assert 'where: str | None = nullable_string("0+")' in text
    assert 'whole: bool = boolean("0+", tag=OWN_TAG, tagged="0+", ignorable=True)' in text
    assert 'entries: list[Row] = array(Row, "0+")' in text


@pytest.mark.parametrize("kind", ["float32", "records", "[]int16"])
def test_type_that_cannot_be_declared_is_refused_by_name(kind: str) -> None:
    with pytest.raises(Unwritable, match=r"DescribeClusterResponse\.odd is .*" + kind.removeprefix("[]")):
        written([{"name": "Odd", "type": kind, "versions": "0+"}])


def test_version_that_kafka_does_not_have_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RESPONSE, "validVersions", "1-2")
    with pytest.raises(Unwritable, match="Kafka has 1-2"):
        written([])


@pytest.mark.parametrize(
    ("name", "expected"),
    [("TopicId", "topic_id"), ("IsKRaftController", "is_kraft_controller"), ("ISRNodes", "isr_nodes")],
)
def test_names_are_written_as_python_writes_them(name: str, expected: str) -> None:
    assert snake(name) == expected
