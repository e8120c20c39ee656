from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.wire.primitives import (
    MalformedFrame,
    Reader,
    Writer,
    encode_uvarint,
    topic_id_from_bytes,
    topic_id_to_bytes,
)
from tests.support.examples import examples

STILL = examples()


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, b"\x00"), (-1, b"\x01"), (1, b"\x02"), (63, b"\x7e"), (64, b"\x80\x01"), (-(2**31), b"\xff\xff\xff\xff\x0f")],
)
def test_varint_known_value_is_zigzag_base_128(value: int, encoded: bytes) -> None:
    writer = Writer()
    writer.varint(value)
    assert bytes(writer.buffer) == encoded
    assert Reader(encoded).varint("x") == value


@STILL
@given(st.integers(-(2**63), 2**63 - 1))
def test_varlong_any_value_roundtrips(value: int) -> None:
    writer = Writer()
    writer.varlong(value)
    reader = Reader(bytes(writer.buffer))
    assert reader.varlong("x") == value
    assert reader.remaining == 0


@STILL
@given(st.integers(0, 2**32 - 1))
def test_uvarint_any_value_roundtrips(value: int) -> None:
    assert Reader(encode_uvarint(value)).uvarint("x") == value


@pytest.mark.parametrize("raw", [b"\xff\xff\xff\xff\x10", b"\x80\x80\x80\x80\x80\x01", b"\x80", b""])
def test_uvarint_too_long_or_cut_off_is_malformed(raw: bytes) -> None:
    with pytest.raises(MalformedFrame, match="length_of_it"):
        Reader(raw).uvarint("length_of_it")


def test_malformed_frame_names_field_offset_and_value() -> None:
    reader = Reader(b"\x00\x01\x00\x09abc")
    reader.int16("version")
    with pytest.raises(MalformedFrame) as caught:
        reader.string("topic", compact=False)
    assert (caught.value.field, caught.value.offset, caught.value.value) == ("topic", 4, 9)
    assert "topic at byte 4" in str(caught.value)


def test_string_not_utf8_is_malformed() -> None:
    with pytest.raises(MalformedFrame, match="not UTF-8"):
        Reader(b"\x00\x02\xff\xfe").string("name", compact=False)


@pytest.mark.parametrize("raw", [b"\xff\xff", b"\xff\xfe"])
def test_string_null_or_negative_where_required_is_malformed(raw: bytes) -> None:
    with pytest.raises(MalformedFrame):
        Reader(raw).string("name", compact=False)


def test_string_longer_than_any_older_version_can_say_is_malformed() -> None:
    for size, good in ((32767, True), (32768, False)):
        writer = Writer()
        writer.uvarint(size + 1)
        raw = bytes(writer.buffer) + b"x" * size
        if good:
            assert len(Reader(raw).string("name", compact=True)) == size
        else:
            with pytest.raises(MalformedFrame, match="a string of more than 32767 bytes"):
                Reader(raw).string("name", compact=True)


def test_count_hostile_length_is_refused_before_allocation() -> None:
    with pytest.raises(MalformedFrame, match="more array elements than 4 bytes can hold"):
        Reader(b"\x7f\xff\xff\xff" + bytes(4)).count("topics", compact=False, element_size_min=1)


def test_tags_unknown_are_skipped_and_order_is_checked() -> None:
    writer = Writer()
    writer.tags([(3, b"abc"), (900, b"")])
    reader = Reader(bytes(writer.buffer) + b"rest")
    reader.skip_tags("tags")
    assert reader.remaining == 4
    with pytest.raises(MalformedFrame, match="tags must rise"):
        Reader(b"\x02\x05\x00\x05\x00").tags("tags")


@STILL
@given(st.binary(min_size=16, max_size=16))
def test_topic_id_any_bytes_roundtrip_as_text(raw: bytes) -> None:
    text = topic_id_from_bytes(raw)
    assert len(text) == (22 if any(raw) else 0)
    assert topic_id_to_bytes(text) == raw


def test_topic_id_known_text_is_kafkas() -> None:
    assert topic_id_from_bytes(bytes(range(16))) == "AAECAwQFBgcICQoLDA0ODw"


@pytest.mark.parametrize("text", ["short", "AAECAwQFBgcICQoLDA0OD!", "AAECAwQFBgcICQoLDA0ODwAA", "é" * 22])
def test_topic_id_malformed_text_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="topic id"):
        topic_id_to_bytes(text)
