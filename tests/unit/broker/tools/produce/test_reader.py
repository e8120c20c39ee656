from __future__ import annotations

import pytest

from broker.tools.client.errors import ToolError
from broker.tools.client.producer import producer_settings
from broker.tools.client.properties import Properties
from broker.tools.produce.command import parser, properties_of
from broker.tools.produce.reader import Line, LineReader, Lines
from broker.wire.compression import Compression


def read(line: bytes, **properties: str) -> Line:
    return LineReader({name.replace("_", "."): value for name, value in properties.items()}).read(line)


def test_lines_end_as_javas_do_wherever_the_reads_cut_them() -> None:
    whole = b"a\nb\r\nc\rd\n\ne"
    for size in range(1, len(whole) + 1):
        lines = Lines()
        found = [line for start in range(0, len(whole), size) for line in lines.feed(whole[start : start + size])]
        assert found + lines.end() == [b"a", b"b", b"c", b"d", b"", b"e"]


def test_last_line_may_end_in_a_carriage_return() -> None:
    lines = Lines()
    assert lines.feed(b"a\r") + lines.end() == [b"a"]


def test_line_is_a_value() -> None:
    assert read(b"k\tv") == Line(None, b"k\tv", ())


def test_key_stands_before_the_first_separator() -> None:
    assert read(b"k\tv\tw", parse_key="true") == Line(b"k", b"v\tw", ())
    assert read(b"k::v", parse_key="TRUE", key_separator="::") == Line(b"k", b"v", ())
    assert read(b"k:", parse_key="true", key_separator=":") == Line(b"k", b"", ())


def test_missing_separator_is_an_error_unless_it_is_to_be_ignored() -> None:
    reader = LineReader({"parse.key": "true"})
    reader.read(b"k\tv")
    with pytest.raises(ToolError, match="No key separator found on line number 2: 'kv'"):
        reader.read(b"kv")
    assert read(b"kv", parse_key="true", ignore_error="true") == Line(None, b"kv", ())


def test_headers_stand_first() -> None:
    line = b"h1:v1,h2:v:2\tk\tv"
    assert read(line, parse_key="true", parse_headers="true") == Line(b"k", b"v", (("h1", b"v1"), ("h2", b"v:2")))
    assert read(b"h1:v1|v", parse_headers="true", headers_delimiter="|") == Line(None, b"v", (("h1", b"v1"),))
    with pytest.raises(ToolError, match="No header key separator found in pair 'h1' on line number 1"):
        read(b"h1\tv", parse_headers="true")


def test_null_marker_stands_for_null_everywhere() -> None:
    properties = {"parse.key": "true", "parse.headers": "true", "null.marker": "NUL"}
    assert LineReader(properties).read(b"h:NUL\tNUL\tNUL") == Line(None, None, (("h", None),))
    assert LineReader(properties).read(b"NUL\tk\tv") == Line(b"k", b"v", ())
    with pytest.raises(ToolError, match="should not be equal to the null marker 'NUL'"):
        LineReader(properties).read(b"NUL:x\tk\tv")


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"headers.delimiter": ","}, "headers.delimiter and headers.separator may not be equal"),
        ({"headers.separator": ":"}, "headers.separator and headers.key.separator may not be equal"),
        ({"null.marker": "\t"}, "null.marker and key.separator may not be equal"),
        ({"headers.separator": "("}, "no regular expression"),
    ],
)
def test_separators_that_contradict_each_other_are_refused(properties: dict[str, str], said: str) -> None:
    with pytest.raises(ToolError, match=said):
        LineReader(properties)


def settings_of(*words: str) -> Properties:
    return properties_of(parser().parse_args(["--topic", "t", "--bootstrap-server", "a:1", *words]))


def test_producer_has_the_defaults_of_kafkas_tool() -> None:
    settings = producer_settings(settings_of())
    assert settings[:6] == (-1, 1.0, 16384, 33554432, 1.5, 3)
    assert settings.compression == Compression.NONE
    assert settings.idempotent


def test_option_beats_property_and_property_the_default() -> None:
    words = ("--producer-property", "acks=1", "--producer-property", "linger.ms=5", "--timeout", "7")
    settings = producer_settings(settings_of(*words, "--compression-codec"))
    assert (settings.acks, settings.linger, settings.compression) == (1, 0.007, Compression.GZIP)
    assert not settings.idempotent


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("acks=2", "acks=2: it must be one of all, -1, 0, 1"),
        ("batch.size=x", "batch.size=x: it must be a whole number"),
        ("transactional.id=t", "sends without transactions"),
    ],
)
def test_wrong_setting_of_the_producer_is_refused(setting: str, said: str) -> None:
    name, _, value = setting.partition("=")
    with pytest.raises(ToolError, match=said):
        producer_settings(Properties({name: value}))


def test_idempotence_needs_acks_all() -> None:
    with pytest.raises(ToolError, match=r"enable\.idempotence=true needs acks=all"):
        producer_settings(Properties({"acks": "1", "enable.idempotence": "true"}))


def test_unknown_codec_is_refused() -> None:
    with pytest.raises(ToolError, match=r"compression\.type=brotli: it must be one of none, gzip, snappy, lz4, zstd"):
        producer_settings(settings_of("--compression-codec", "brotli"))
