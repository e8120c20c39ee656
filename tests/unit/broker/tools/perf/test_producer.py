"""Options of `highwater perf producer` that cannot be are refused before anything is sent."""

from __future__ import annotations

import pytest

from broker.tools.perf.producer import run

WORDS = ("--topic", "t", "--producer-props", "bootstrap.servers=127.0.0.1:1")
SIZED = (*WORDS, "--num-records", "1", "--record-size", "1")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*WORDS, "--num-records", "0", "--record-size", "1", "--throughput", "-1"), "--num-records 0: it must be 1"),
        ((*WORDS, "--num-records", "1", "--record-size", "-1", "--throughput", "-1"), "--record-size -1: it must be 0"),
        *(
            (
                (*SIZED, "--throughput", text),
                f"argument --throughput: Cannot parse argument '{text}' as a number, such as 10, 0.5 or 1e6",
            )
            for text in ("nan", "1_0", "inf", "1e400", "\uff11")
        ),
        ((*SIZED, "--throughput", "0"), "--throughput 0: nothing would ever be sent; it must be above 0, or -1"),
        (
            (*WORDS, "--num-records", "1", "--payload-file", "x", "--payload-delimiter", "", "--throughput", "-1"),
            "--payload-delimiter '': it must be one character or more",
        ),
    ],
)
def test_option_that_cannot_be_is_refused(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(words)
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith(said)
