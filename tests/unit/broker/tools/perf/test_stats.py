"""Figures of performance runs, in lines that what reads the lines of Kafka's tools reads as well."""

from __future__ import annotations

from itertools import islice
from random import Random

import pytest

from benchmarks.clients.java_tools import parse_consumed, parse_produced
from broker.tools.client.errors import ToolError
from broker.tools.perf import consumer, producer
from broker.tools.perf.producer import payloads, split_payloads
from broker.tools.perf.stats import (
    DETAILED_HEADER,
    HEADER,
    Consumed,
    ProducerStats,
    consumed_total,
    consumed_window,
    formatted,
    percentiles,
)

FORMAT = "yyyy-MM-dd HH:mm:ss:SSS"


def test_produced_records_are_summed_up_as_by_kafkas_tool() -> None:
    stats = ProducerStats(1000, now=10.0)
    for number in range(1000):
        assert stats.record(number, 1024 * 1024, now=10.0 + number / 1000) is None
    line = stats.total(now=12.0)
    assert line == (
        "1000 records sent, 500.000000 records/sec (500.00 MB/sec), 499.50 ms avg latency, 999.00 ms max latency, "
        "500 ms 50th, 950 ms 95th, 990 ms 99th, 999 ms 99.9th."
    )
    assert parse_produced(line) == (1000, 2.0)


def test_window_is_told_when_it_is_over_and_the_next_begins_anew() -> None:
    stats = ProducerStats(10, now=0.0)
    assert stats.record(10, 1024 * 1024, now=1.0) is None
    assert stats.record(30, 1024 * 1024, now=5.0) == (
        "2 records sent, 0.4 records/sec (0.40 MB/sec), 20.0 ms avg latency, 30.0 ms max latency."
    )
    assert stats.record(1, 0, now=9.9) is None
    assert stats.record(2, 0, now=10.0) == (
        "2 records sent, 0.4 records/sec (0.00 MB/sec), 1.5 ms avg latency, 2.0 ms max latency."
    )


def test_percentiles_of_nothing_are_zero() -> None:
    assert percentiles([]) == [0, 0, 0, 0]
    assert percentiles([7]) == [7, 7, 7, 7]
    assert ProducerStats(0, 0.0).total(1.0).startswith("0 records sent, 0.000000 records/sec")


def test_many_latencies_are_sampled() -> None:
    stats = ProducerStats(1_000_000, now=0.0)
    for latency in (1, 100, 1, 100):
        stats.record(latency, 1, now=0.1)
    assert "100.00 ms max latency, 1 ms 50th, 1 ms 95th" in stats.total(1.0)


def test_consumed_records_are_summed_up_as_by_kafkas_tool() -> None:
    line = consumed_total(Consumed(0.0, 0, 0, 0.0), Consumed(4.0, 2000, 2 << 20, 2.0), FORMAT)
    assert line.split(", ")[2:] == ["2.0000", "0.5000", "2000", "500.0000", "2000", "2000", "1.0000", "1000.0000"]
    assert len(HEADER.split(", ")) == len(line.split(", "))
    assert parse_consumed(f"{HEADER}\n{line}\n") == (2000, 2.0)


def test_consumed_window_counts_from_the_one_before() -> None:
    line = consumed_window(Consumed(0.0, 1000, 1 << 20, 1.0), Consumed(4.0, 3000, 3 << 20, 3.0), FORMAT)
    assert line.split(", ")[1:] == [
        *("0", "3.0000", "0.5000", "3000", "500.0000"),
        *("2000", "2000", "1.0000", "1000.0000"),
    ]
    assert len(DETAILED_HEADER.split(", ")) == len(line.split(", "))
    assert consumed_window(Consumed(0.0, 0, 0, 0.0), Consumed(1.0, 9, 9, 1.0), FORMAT).endswith(
        "1000, 0, 0.0000, 0.0000"
    )


def test_time_is_formatted_by_javas_letters() -> None:
    year, rest = formatted(1.25, "yyyy/MM|SSS").split("/")
    assert year in ("1970", "1969")
    assert rest.endswith("|250")
    with pytest.raises(ToolError, match="zzz is none of yyyy"):
        formatted(1.0, "HH zzz")


WORDS = ("--topic", "t", "--num-records", "3", "--throughput", "-1", "--producer-props", "bootstrap.servers=a:1")


def test_payloads_are_letters_or_numbers() -> None:
    made = producer.parser()
    sized = list(islice(payloads(made.parse_args([*WORDS, "--record-size", "9"]), Random(1)), 50))
    assert all(len(one) == 9 and one.isalpha() and one.isupper() for one in sized)
    assert len(set(sized)) == 50
    counted = payloads(made.parse_args([*WORDS, "--payload-monotonic"]), Random(1))
    assert list(islice(counted, 3)) == [b"0", b"1", b"2"]


def test_payloads_of_a_file_stand_between_delimiters() -> None:
    assert split_payloads(b"a\nb\n\nc\n", "\\n") == [b"a", b"b", b"", b"c"]
    assert split_payloads(b"a||b", "||") == [b"a", b"b"]
    for nothing in (b"", b"\n\n"):
        with pytest.raises(ToolError, match="empty file"):
            split_payloads(nothing, "\\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (WORDS, "one of the arguments --record-size --payload-file --payload-monotonic is required"),
        ((*WORDS[:6], "--record-size", "1"), "Either --producer-props or --producer.config must be specified."),
        ((*WORDS, "--record-size", "1", "--transaction-duration-ms", "5"), "--transaction-duration-ms: this producer"),
        (("--topic", "t", "--num-records", "0", *WORDS[4:], "--record-size", "1"), "--num-records 0: it must be 1"),
    ],
)
def test_wrong_options_of_the_producer_end_with_1(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        producer.run(words)
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith(said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--topic t --messages 1", "Missing required option(s) [bootstrap-server]"),
        (
            "--topic t --messages 1 --broker-list a:1 --reporting-interval 0",
            "Reporting interval must be greater than 0.",
        ),
    ],
)
def test_wrong_options_of_the_consumer_end_with_1(capsys: pytest.CaptureFixture[str], words: str, said: str) -> None:
    with pytest.raises(SystemExit) as ended:
        consumer.run(words.split())
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith(said)
