"""Options that are numbers: plain ones, as the tools for running clusters read them."""

from __future__ import annotations

import pytest

from harness.commands.main import parser

OPTIONS = [
    ("test", "run.toml", "--time-limit"),
    ("test", "run.toml", "--rate"),
    ("test", "run.toml", "--online"),
    ("analyze", "run", "--time-limit"),
    ("nightly", "matrix.toml", "--minutes"),
    ("nightly", "matrix.toml", "--keep-days"),
    ("nightly", "matrix.toml", "--keep-gb"),
    ("nightly", "matrix.toml", "--shrink-minutes"),
]


@pytest.mark.parametrize(("command", "what", "option"), OPTIONS)
def test_option_takes_a_plain_number(command: str, what: str, option: str) -> None:
    asked = parser().parse_args([command, what, option, "1.5e1"])
    assert getattr(asked, option[2:].replace("-", "_")) == 15.0


@pytest.mark.parametrize("text", ["1_0", "nan", "inf", "1e400", "\uff11\uff10", "ten"])
@pytest.mark.parametrize(("command", "what", "option"), OPTIONS)
def test_option_that_is_no_plain_number_is_refused(
    command: str, what: str, option: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args([command, what, option, text])
    assert ended.value.code == 254
    said = capsys.readouterr().err
    assert f"argument {option}: {text!r} is not a number, such as 10, 0.5 or 1e6" in said
