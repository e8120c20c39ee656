"""What `highwater consume` refuses of a partition and an offset before it asks a broker."""

from __future__ import annotations

import pytest

from broker.tools.consume.command import parser, start_of

WORDS = ("--bootstrap-server", "a:1", "--topic", "t")


def test_partition_and_offset_are_read() -> None:
    made = parser()
    assert start_of(made, made.parse_args([*WORDS, "--partition", "3", "--offset", "41"]))[1:] == (3, 41)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--partition", "-1", "--offset", "5"), "--partition -1: it must be 0 or more"),
        (("--partition", "99999999999"), "argument --partition: Cannot parse argument '99999999999'"),
        (("--partition", "0", "--offset", "9" * 20), f"The provided offset value '{'9' * 20}' is incorrect. Valid"),
        (("--partition", "0", "--offset", "\uff11"), "The provided offset value '\uff11' is incorrect. Valid values"),
        (("--partition", "0", "--offset", "-1"), "The provided offset value '-1' is incorrect. Valid values are"),
    ],
)
def test_place_that_cannot_be_is_refused(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str) -> None:
    made = parser()
    with pytest.raises(SystemExit) as ended:
        start_of(made, made.parse_args([*WORDS, *words]))
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith(said)
