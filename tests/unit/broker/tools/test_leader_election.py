from __future__ import annotations

import pytest

from broker.tools.client.errors import BrokerError
from broker.tools.leader_election import checked, outcome
from broker.wire.errors import ErrorCode

SERVER = ("--bootstrap-server", "a:1")


def test_outcome_names_elected_needless_and_failed_partitions() -> None:
    failed, lines = outcome(
        "preferred",
        {
            ("t", 1): None,
            ("t", 0): None,
            ("t", 2): BrokerError(ErrorCode.ELECTION_NOT_NEEDED),
            ("u", 0): BrokerError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "Not alive."),
        },
    )
    assert failed == 1
    assert lines == [
        "Successfully completed leader election (PREFERRED) for partitions t-0, t-1",
        "Valid replica already elected for partitions t-2",
        "Error completing leader election (PREFERRED) for partition: u-0: "
        "org.apache.kafka.common.errors.PreferredLeaderNotAvailableException: Not alive.",
    ]
    assert outcome("unclean", {}) == (0, [])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--election-type preferred", "One and only one of the following options is required: topic, all-topic-parti"),
        ("--election-type preferred --topic t --all-topic-partitions", "One and only one of"),
        ("--election-type preferred --topic t", "Missing required option(s): partition"),
        ("--election-type preferred --partition 0 --all-topic-partitions", "Option partition is only allowed if topic"),
        ("--election-type best --all-topic-partitions", "argument --election-type: invalid choice: 'best'"),
    ],
)
def test_wrong_options_end_with_1_and_say_why(capsys: pytest.CaptureFixture[str], words: str, said: str) -> None:
    with pytest.raises(SystemExit) as ended:
        checked([*SERVER, *words.split()])
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith(said)


def test_type_may_be_in_capitals() -> None:
    options = checked([*SERVER, "--election-type", "UNCLEAN", "--topic", "t", "--partition", "0"])
    assert (options.election_type, options.partition) == ("unclean", 0)
