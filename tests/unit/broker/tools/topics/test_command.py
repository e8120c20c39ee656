from __future__ import annotations

import pytest

from broker.tools.topics.command import checked

SERVER = ("--bootstrap-server", "a:1")


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        checked([*SERVER, *words])
    assert ended.value.code == 1
    return capsys.readouterr().err.splitlines()[0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Command must include exactly one action: --list, --describe, --create, --alter or --delete"),
        (("--list", "--delete"), "Command must include exactly one action: "),
        (("--create",), 'Missing required argument "[topic]"'),
        (("--delete",), 'Missing required argument "[topic]"'),
        (("--alter", "--topic", "t"), 'Missing required argument "[partitions]"'),
        (("--alter", "--topic", "t", "--config", "a=b"), 'Option "[config]" can\'t be used with option "[alter]"'),
        (("--list", "--config", "a=b"), 'Option "[config]" can\'t be used with option "[list]"'),
        (("--list", "--if-exists"), 'Option "[if-exists]" can\'t be used with option "[list]"'),
        (("--describe", "--if-exists"), "--topic or --topic-id is required to describe a topic"),
        (
            ("--create", "--topic", "t", "--replica-assignment", "1", "--partitions", "1"),
            'Option "[replica-assignment]" can\'t be used with option "[partitions]"',
        ),
        (
            ("--describe", "--unavailable-partitions", "--topics-with-overrides"),
            'Option "[unavailable-partitions]" can\'t be used with option "[topics-with-overrides]"',
        ),
        (("--alter", "--topic", "t", "--partitions", "2", "--delete-config", "a"), 'Option "[delete-config]" can\'t'),
        (("--list", "--topic", "a", "--topic", "b"), "Found multiple arguments for option topic, but you asked for"),
        (("--create", "--topic", "t", "--partitions", "x"), "argument --partitions: Cannot parse argument 'x'"),
        (("--create", "--topic", "t", "--partitions", "1_0"), "argument --partitions: Cannot parse argument '1_0'"),
        (
            ("--create", "--topic", "t", "--partitions", "99999999999"),
            "argument --partitions: Cannot parse argument '99999999999' as a whole number from -2147483648 to 21474836",
        ),
        (
            ("--create", "--topic", "t", "--replication-factor", "32768"),
            "argument --replication-factor: Cannot parse argument '32768' as a whole number from -32768 to 32767",
        ),
        (("--lis",), "unrecognized arguments: --lis"),
    ],
)
def test_wrong_options_end_with_1_and_say_why(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    assert refusal(capsys, *words).startswith(said)


def test_bootstrap_server_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        checked(["--list"])
    assert ended.value.code == 1
    assert "--bootstrap-server" in capsys.readouterr().err


def test_options_are_taken_with_and_without_an_equals_sign() -> None:
    options = checked([*SERVER, "--create", "--topic=t", "--config", "a=b", "--config=c=d", "--if-not-exists"])
    assert (options.action, options.topic, options.config) == ("create", "t", ["a=b", "c=d"])
    assert options.if_not_exists
    assert options.partitions is None
