"""Medians, ratios, verdicts and the table, from runs as they come from the rows."""

from __future__ import annotations

import pytest

from benchmarks.report.metrics import METRICS, Target, at_least, at_most
from benchmarks.report.plot import position, svg
from benchmarks.report.results import page
from benchmarks.report.summary import (
    Progress,
    RowRuns,
    Run,
    Side,
    Spread,
    lines,
    progress,
    ratio,
    remarks,
    spread,
    without_figure,
)
from benchmarks.report.table import cell, counts, markdown, verdict

BOTH = {"kafka": 1, "highwater": 1}


def row(*runs: Run, targets: tuple[Target, ...] = (at_least("mb_per_s", 2),), judged_from: int = 1) -> RowRuns:
    return RowRuns(
        "Produce", "acks=all", ("mb_per_s", "cpu_s_per_gb"), targets, BOTH, judged_from=judged_from, runs=list(runs)
    )


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
    assert found[0].ours == Side(Spread(250, 250, 250, 1), 1, "")
    assert found[0].ratio == 2.5
    assert found[0].met is True


def test_lines_of_a_row_that_is_void_on_one_side_judge_nothing() -> None:
    found = lines([row(run("kafka", 100, void="no answer"), run("highwater", 250))])
    assert found[0].theirs == Side(None, 1, "void")
    assert found[0].met is None
    assert verdict(found[0]) == "no figure"


@pytest.mark.parametrize(("runs", "met"), [(1, None), (2, True)])
def test_figure_is_judged_from_enough_runs_of_both_on(runs: int, met: bool | None) -> None:
    of = row(run("kafka", 100), run("kafka", 100), *[run("highwater", 300)] * runs, judged_from=2)
    assert lines([of])[0].met is met
    assert verdict(lines([of])[0]) == ("met" if met else "not judged, n < 2")


def test_figure_that_is_not_met_says_by_how_much() -> None:
    assert verdict(lines([row(run("kafka", 100), run("highwater", 150))])[0]) == "**not met** (0.75 of it)"


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
    of = row(run("kafka", 100), run("kafka", 1, void="logs differ"), run("highwater", 150))
    found = lines([of])
    text = markdown(found, {"Produce": remarks(of)})
    assert "| acks=all | MB/s | 100; n=1, 1 void | 150; n=1 | 1.50 | ≥ 2 | **not met** (0.75 of it) |" in text
    assert "- void: acks=all: kafka: logs differ" in text
    assert counts(found).startswith("0 of 1 figures to reach are met, 1 are not, 0")


def test_table_keeps_a_group_together_whose_rows_are_apart_in_the_plan() -> None:
    other = RowRuns("Consume", "x", ("mb_per_s",), (), BOTH)
    text = markdown(lines([row(), other, row()]), {})
    assert text.index("## Produce") < text.index("## Consume")
    assert text.count("## Produce") == 1


def test_row_without_runs_was_not_run_and_is_not_void() -> None:
    assert "| not run | not run |" in markdown(lines([row()]), {})


def test_row_that_is_not_served_says_so_and_lacks_no_figure() -> None:
    of = RowRuns(
        "Consume", "tool", ("mb_per_s",), (at_least("mb_per_s", 1),), {"kafka": 1},
        not_served={"highwater": "no groups"}, runs=[run("kafka", 100)],
    )  # fmt: skip
    found = lines([of])
    assert "| 100; n=1 | not served |  | ≥ 1 | not served |" in markdown(found, {})
    assert remarks(of) == ["not served: tool: highwater: no groups"]
    assert without_figure([of]) == []
    assert progress([of]) == Progress(1, 1, 0)


def test_runs_that_others_disturbed_are_remarked() -> None:
    of = row(Run("kafka", {"foreign_cores": 0.34}), Run("kafka", {"foreign_cores": 0.1, "steal_cores": 0.2}))
    assert remarks(of) == [
        "disturbed: acks=all: kafka: others on the machine took up to 0.34 of a processor in 1 of 2 runs",
        "disturbed: acks=all: kafka: the host took up to 0.20 of a processor in 1 of 2 runs",
    ]


@pytest.mark.parametrize(
    ("threads", "cores", "marked"), [(1, 0.9, True), (1, 0.89, False), (4, 1.7, False), (0, 2, False)]
)
def test_client_that_uses_up_its_threads_is_marked(threads: int, cores: float, marked: bool) -> None:
    of = RowRuns(
        "P", "a", ("client_cores",), (), BOTH, client_threads=threads, runs=[Run("kafka", {"client_cores": cores})]
    )
    assert lines([of], processors=2)[0].theirs.client_bound is marked


def test_progress_counts_no_run_beyond_those_wanted() -> None:
    of = row(run("kafka", 1), run("kafka", 1), run("highwater", 1, void="x"))
    assert progress([of]) == Progress(1, 2, 1)


def test_judged_figure_without_a_run_that_counts_is_named() -> None:
    of = row(run("kafka", 1), run("highwater", 1, void="x"))
    assert without_figure([of]) == ["Produce: acks=all: mb_per_s of highwater"]
    assert without_figure([row(run("kafka", 1), run("highwater", 1))]) == []


def test_cell_shows_the_range_of_several_runs_and_why_there_is_none() -> None:
    assert cell(Side(Spread(1234.5, 1000, 2000, 3), 0, ""), 0) == "1,234 (1,000–2,000); n=3"
    assert cell(Side(Spread(1, 1, 1, 1), 2, "", client_bound=True), 0) == "1; n=1, 2 void, client-bound"
    assert cell(Side(None, 3, "void"), 0) == "void, 3"
    assert cell(Side(None, 0, "too few samples"), 0) == ""


def test_plot_shows_only_rows_with_a_ratio_to_reach() -> None:
    drawn = svg(lines([row(run("kafka", 100), run("highwater", 300))]))
    assert drawn.count("acks=all: ") == 1
    assert ">3.00<" in drawn


def test_plot_distinguishes_met_missed_and_not_judged() -> None:
    fills = []
    for ours, judged_from in ((300, 1), (100, 1), (300, 2)):
        drawn = svg(lines([row(run("kafka", 100), run("highwater", ours), judged_from=judged_from)]))
        fills.append(next(part for part in drawn.split('fill="') if part.startswith("#") and "/>" in part[:10])[:7])
    assert len(set(fills)) == 3


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
