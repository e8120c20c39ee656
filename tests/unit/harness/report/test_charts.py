"""How faults are drawn: by what they say of themselves, whatever they are called."""

from __future__ import annotations

import pytest

from harness.report.charts import all_charts
from tests.support.sample_run import RESULTS, SERIES

pytestmark = pytest.mark.guarantee("V6")


def charts(**said: object) -> dict[str, str]:
    """Title → HTML, of a run with one fault."""
    faults = [{**SERIES["faults"][0], "fault": "frost", **said}]
    return {chart.title: chart.html for chart in all_charts({**SERIES, "faults": faults}, RESULTS["faults"])}


@pytest.mark.parametrize("effect", ["stops-process", "cuts-links", "skews-clock", "damages-files"])
def test_fault_of_any_kind_has_the_colour_of_its_effect(effect: str) -> None:
    colours = {one: charts(effects=[one])["Rate"].partition('"fillcolor":"')[2][:7] for one in (effect, "none")}
    assert colours[effect].startswith("#")
    assert colours[effect] != colours["none"]


def test_clock_chart_shows_the_faults_that_skew_clocks() -> None:
    assert "frost" in charts(effects=["skews-clock"])["Clocks"]
    assert "frost" not in charts(effects=["stops-process"])["Clocks"]
