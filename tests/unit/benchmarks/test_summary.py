"""Medians, ratios, verdicts and the table, from runs as they come from the rows."""

from __future__ import annotations

import pytest

from benchmarks.report.metrics import METRICS, Target, at_least, at_most
from benchmarks.report.plot import position, svg
from benchmarks.report.results import page
from benchmarks.report.summary import RowRuns, Run, Spread, lines, ratio, spread
from benchmarks.report.table import cell, counts, markdown


def row(*runs: Run, targets: tuple[Target, ...] = (at_least("mb_per_s", 2),)) -> RowRuns:
    return RowRuns("Produce", "acks=all", ("mb_per_s", "cpu_s_per_gb"), targets, list(runs))


def run(system: str, mb_per_s: float, cpu: float = 1.0, void: str | None = None) -> Run:
    return Run(system, {"mb_per_s": mb_per_s, "cpu_s_per_gb": cpu}, void)


def test_spread_of_three_values_is_median_and_range() -> None:
    assert spread([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0, 3)


def test_spread_of_nothing_is_none() -> None:
    assert spread([]) is None


def test_ratio_is_ours_over_theirs() -> None:
    assert ratio(Spread(300, 300, 300, 1), Spread(100, 100, 100, 1)) == 3.0


def test_ratio_without_a_counting_run_is_none() -> None:
    assert ratio(None, Spread(1, 1, 1, 1)) is None
    assert ratio(Spread(1, 1, 1, 1), Spread(0, 0, 0, 1)) is None


def test_lines_leave_void_runs_out_of_the_median() -> None:
    found = lines([row(run("kafka", 100), run("highwater", 250), run("highwater", 9000, void="ISR shrank"))])
    assert found[0].ours == Spread(250, 250, 250, 1)
    assert found[0].ratio == 2.5
    assert found[0].met is True
    assert found[0].voids == ("highwater: ISR shrank",)


def test_lines_of_a_row_that_is_void_on_one_side_judge_nothing() -> None:
    found = lines([row(run("kafka", 100, void="no answer"), run("highwater", 250))])
    assert found[0].theirs is None
    assert found[0].met is None


@pytest.mark.parametrize(("ours", "met"), [(200.0, True), (199.9, False)])
def test_target_at_least_is_met_from_its_limit_on(ours: float, met: bool) -> None:
    assert lines([row(run("kafka", 100), run("highwater", ours))])[0].met is met


@pytest.mark.parametrize(("ours", "met"), [(0.33, True), (0.34, False)])
def test_target_at_most_is_met_up_to_its_limit(ours: float, met: bool) -> None:
    found = lines([row(run("kafka", 1, 1.0), run("highwater", 1, ours), targets=(at_most("cpu_s_per_gb", 0.33),))])
    assert found[1].met is met


def test_target_on_a_value_needs_no_other_system() -> None:
    assert Target("rss_mb", "at most", 60, "value").met(59.0, None) is True


def test_table_marks_void_runs_and_missed_targets() -> None:
    found = lines([row(run("kafka", 100), run("kafka", 1, void="logs differ"), run("highwater", 150))])
    text = markdown(found)
    assert "| acks=all | MB/s | 100 | 150 | 1.50 | ≥ 2 | **not met** |" in text
    assert "- void: acks=all: kafka: logs differ" in text
    assert counts(found).startswith("0 of 1 figures to reach are met, 1 are not, 0")


def test_cell_shows_the_range_of_several_runs() -> None:
    assert cell(Spread(1234.5, 1000, 2000, 3), 0) == "1,234 (1,000–2,000)"
    assert cell(None, 0) == "void"


def test_plot_shows_only_rows_with_a_ratio_to_reach() -> None:
    drawn = svg(lines([row(run("kafka", 100), run("highwater", 300))]))
    assert drawn.count("acks=all: ") == 1
    assert ">3.00<" in drawn


def test_plot_position_is_logarithmic_and_stays_on_the_axis() -> None:
    assert position(10) - position(1) == pytest.approx(position(1) - position(0.1))
    assert position(0) == position(1e-9)
    assert position(1e9) == position(1e6)


def test_page_names_the_environment_and_every_metric_has_a_label() -> None:
    text = page(
        "quick", {"machine": "2 processors", "settings": {"a": "b"}}, [row(run("kafka", 1), run("highwater", 1))]
    )
    assert "- machine: 2 processors" in text
    assert "settings" not in text
    assert all(metric.label for metric in METRICS.values())
