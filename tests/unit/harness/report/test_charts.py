"""Which charts there are, and how faults are marked: by what they say of themselves, whatever they are called."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.report import charts
from tests.support.sample_run import FAULT, SERIES

pytestmark = pytest.mark.guarantee("V6")

NAMES = {1: "n1", 2: "n2", 3: "n3"}


def drawn(**said: Any) -> dict[str, charts.Chart]:
    """Title → chart."""
    return {chart.title: chart for chart in charts.all_charts({**SERIES, **said}, NAMES)}


def band(**said: Any) -> dict[str, Any]:
    return charts.band({**FAULT, "fault": "frost", **said}, 6.0)


@pytest.mark.parametrize("effect", ["stops-process", "cuts-links", "skews-clock", "damages-files"])
def test_fault_of_any_kind_has_the_colour_of_its_effect(effect: str) -> None:
    assert band(effects=[effect])["colour"] == effect
    assert band(effects=["none of these"])["colour"] == "other"
    assert band(effects=[effect])["label"] == "frost n1"


def test_fault_that_was_not_taken_back_lasts_until_the_end() -> None:
    assert (band(stop_ns=None)["from"], band(stop_ns=None)["to"]) == (2.0, 6.0)


def test_clock_chart_marks_the_faults_that_skew_clocks_alone() -> None:
    found = drawn()
    assert found["Wall clocks"].effects == ("skews-clock",)
    assert {chart.effects for title, chart in found.items() if title != "Wall clocks"} == {()}


def test_send_has_its_quantiles_in_colours_that_no_other_operation_has() -> None:
    found = drawn()
    assert [line.name for line in found["Sends: latency"].lines] == ["p50", "p95", "p99", "no answer"]
    colours = [
        {line.colour for line in found[f"{what}: latency"].lines} for what in ("Sends", "Polls", "Other operations")
    ]
    assert len(set.union(*colours)) == sum(map(len, colours))


def test_quantiles_have_a_gap_where_nothing_happened() -> None:
    (median, *_) = drawn()["Sends: latency"].lines
    assert [2, None] in median.points


def test_every_partition_has_roles_lag_and_watermark() -> None:
    of_it = [chart.title for chart in drawn().values() if chart.group == "Partition hw-0"]
    assert of_it == ["Leader and in-sync replicas", "Lag", "High watermark"]
    assert [line.name for line in drawn()["Lag"].lines] == ["not committed", "n1 behind", "n2 behind", "n3 behind"]
    assert [lane.name for lane in drawn()["Leader and in-sync replicas"].lanes] == ["n1", "n2", "n3"]


def test_broker_has_one_colour_everywhere() -> None:
    found = drawn()
    (leader, _), *_ = found["Who led each partition"].lanes[0].stretches
    assert leader.text.startswith("n1")
    assert found["Who led each partition"].lanes[0].stretches[0][1] == "b1"
    assert found["Wall clocks"].lines[0].colour == "b1"
    assert charts.broker_colour(1001) == charts.broker_colour(1)


def test_series_without_events_have_the_charts_of_the_history() -> None:
    found = drawn(partitions={}, clock=[])
    assert list(found) == ["Sends: latency", "Polls: latency", "Other operations: latency", "Operations per second"]


def test_data_ends_no_script_element_and_is_json() -> None:
    text = charts.data(list(drawn().values()), [{**FAULT, "fault": "</script><!--"}], 6.0)
    assert "<" not in text
    assert json.loads(text)["bands"][0]["label"] == "</script><!-- n1"
