from __future__ import annotations

import pytest

from broker.tools.client.committed_reads import Shown
from broker.tools.client.errors import ToolError
from broker.tools.consume.command import parser, properties_of, start_of
from broker.tools.consume.formatter import formatter
from broker.wire.list_offsets_timestamps import EARLIEST, LATEST
from broker.wire.records import Record

RECORD = Record(7, 1000, b"k", b"v", (("h", b"x"), ("n", None)))
ALL = {f"print.{name}": "true" for name in ("timestamp", "partition", "offset", "headers", "key", "value")}


def shown(properties: dict[str, str], record: Record = RECORD, *, append_time: bool = False) -> bytes:
    return formatter(None, properties).format(("t", 3), Shown(record, append_time))


def test_value_alone_is_printed_by_default() -> None:
    assert shown({}) == b"v\n"


def test_everything_is_printed_in_kafkas_order() -> None:
    assert shown(ALL) == b"CreateTime:1000\tPartition:3\tOffset:7\th:x,n:null\tk\tv\n"
    assert shown(ALL, Record(0, -1, None, None), append_time=True) == (
        b"NO_TIMESTAMP\tPartition:3\tOffset:0\tNO_HEADERS\tnull\tnull\n"
    )
    assert shown({"print.timestamp": "true"}, append_time=True) == b"LogAppendTime:1000\tv\n"


def test_without_the_value_the_line_ends_behind_what_comes_last() -> None:
    assert shown({"print.key": "true", "print.value": "false"}) == b"k\n"
    assert shown({"print.value": "false"}) == b""


def test_separators_and_null_can_be_chosen() -> None:
    properties = ALL | {"key.separator": "|", "line.separator": ";", "headers.separator": "+", "null.literal": "-"}
    assert shown(properties) == b"CreateTime:1000|Partition:3|Offset:7|h:x+n:-|k|v;"


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("LongDeserializer", b"\0\0\0\0\0\0\1\0", b"256\n"),
        ("IntegerDeserializer", b"\xff\xff\xff\xff", b"-1\n"),
        ("ShortDeserializer", b"\0\5", b"5\n"),
        ("StringDeserializer", b"\xff", "\ufffd\n".encode()),
        ("ByteArrayDeserializer", b"\xff", b"\xff\n"),
    ],
)
def test_values_are_read_by_kafkas_deserializers(name: str, value: bytes, text: bytes) -> None:
    full = f"org.apache.kafka.common.serialization.{name}"
    assert shown({"value.deserializer": full}, RECORD._replace(value=value)) == text


def test_bytes_of_the_wrong_size_are_an_error() -> None:
    with pytest.raises(ToolError, match="Size of data received by the deserializer is not 8: 1 bytes"):
        shown({"value.deserializer": "LongDeserializer"})


def test_unknown_classes_are_refused_and_unknown_names_told_of() -> None:
    with pytest.raises(ToolError, match="there are DefaultMessageFormatter, NoOpMessageFormatter"):
        formatter("org.example.Mine", {})
    with pytest.raises(ToolError, match=r"deserializer org\.example\.Mine"):
        formatter(None, {"key.deserializer": "org.example.Mine"})
    assert formatter(None, {"print.keys": "true"}).unknown == ["print.keys"]


def test_no_op_formatter_prints_nothing() -> None:
    name = "org.apache.kafka.tools.consumer.NoOpMessageFormatter"
    assert formatter(name, {}).format(("t", 0), Shown(RECORD, False)) == b""


SERVER = ("--bootstrap-server", "a:1")


@pytest.mark.parametrize(
    ("words", "partition", "offset"),
    [
        ("--topic t", None, LATEST),
        ("--topic t --from-beginning", None, EARLIEST),
        ("--topic t --partition 2", 2, LATEST),
        ("--topic t --partition 2 --offset 5", 2, 5),
        ("--topic t --partition 2 --offset Earliest", 2, EARLIEST),
        ("--topic t --partition 2 --from-beginning", 2, EARLIEST),
    ],
)
def test_options_say_where_to_begin(words: str, partition: int | None, offset: int) -> None:
    made = parser()
    assert start_of(made, made.parse_args([*SERVER, *words.split()])) == (["t"], partition, offset)


def test_include_is_a_pattern_for_whole_names() -> None:
    made = parser()
    found = start_of(made, made.parse_args([*SERVER, "--include", "a.*,b"])).topics
    assert not isinstance(found, list)
    assert [name for name in ("a1", "b", "ab", "bb", "ca") if found.fullmatch(name)] == ["a1", "b", "ab"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "Exactly one of --include/--topic is required."),
        ("--topic t --include t", "Exactly one of --include/--topic is required."),
        ("--include t --partition 0", "The topic is required when partition is specified."),
        ("--topic t --offset 3", "The partition is required when offset is specified."),
        ("--topic t --partition 0 --offset 3 --from-beginning", "Options from-beginning and offset cannot be"),
        ("--topic t --partition 0 --offset=-3", "The provided offset value '-3' is incorrect."),
        ("--topic t --group g --consumer-property group.id=h", "The group ids provided in different places"),
        ("--topic t --group g --partition 0", "Options group and partition cannot be specified together."),
        ("--topic t --from-beginning --consumer-property auto.offset.reset=latest", "Can't simultaneously specify"),
    ],
)
def test_wrong_options_end_with_1_and_say_why(capsys: pytest.CaptureFixture[str], words: str, said: str) -> None:
    made = parser()
    options = made.parse_args([*SERVER, *words.split()])
    with pytest.raises(SystemExit) as ended:
        (start_of(made, options), properties_of(made, options))
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith(said)


def test_option_beats_property_of_the_consumer() -> None:
    made = parser()
    words = ["--topic", "t", "--consumer-property", "isolation.level=read_committed", "--from-beginning"]
    found = properties_of(made, made.parse_args([*SERVER, *words]))
    assert found.text("isolation.level", "") == "read_committed"
    assert found.text("auto.offset.reset", "") == "earliest"
    words += ["--isolation-level", "read_uncommitted", "--group", "g"]
    found = properties_of(made, made.parse_args([*SERVER, *words]))
    assert (found.text("isolation.level", ""), found.text("group.id", "")) == ("read_uncommitted", "g")
