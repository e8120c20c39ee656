from __future__ import annotations

import pytest

from broker.tools.transactions.command import parser, table

SERVER = ("--bootstrap-server", "a:1")
EPOCH = "abort --topic t --partition 0 --producer-id 1 --producer-epoch 32768 --coordinator-epoch 0"


def test_table_has_columns_as_wide_as_their_widest_cell_and_a_tab() -> None:
    assert table([("Id", "State"), ("long-one", "x")]) == ["Id      \tState\t", "long-one\tx    \t"]
    assert table([]) == []


def test_commands_have_the_options_of_kafkas_tool() -> None:
    made = parser()
    options = made.parse_args([*SERVER, "abort", "--topic", "t", "--partition", "3", "--start-offset", "7"])
    assert (options.command, options.topic, options.partition, options.start_offset) == ("abort", "t", 3, 7)
    options = made.parse_args([*SERVER, "find-hanging", "--broker-id", "2"])
    assert (options.broker_id, options.max_transaction_timeout) == (2, 15)
    assert made.parse_args([*SERVER, "list"]).duration_filter == -1


@pytest.mark.parametrize(
    "words",
    [
        "",
        "describe",
        "abort --topic t",
        "no-such",
        "list --duration-filter x",
        "list --duration-filter 9223372036854775808",
        EPOCH,
    ],
)
def test_wrong_options_end_with_1(capsys: pytest.CaptureFixture[str], words: str) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args([*SERVER, *words.split()])
    assert ended.value.code == 1
    assert "--help` lists the options" in capsys.readouterr().err
