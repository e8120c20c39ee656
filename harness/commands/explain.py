"""`highwater explain`: what broke in a judged run, as a story on the terminal.

Decides what is printed and how lines are broken. Must not know how a story comes about: harness/report/story.py makes
it, for the report's page as well.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.commands.parser import add, whole
from harness.commands.steps_told import steps_told, terminal_width, wrapped

if TYPE_CHECKING:
    from harness.commands.parser import Commands
    from harness.report.story import Finding


def add_to(commands: Commands) -> None:
    """Add the command."""
    explain = add(
        commands,
        "explain",
        "tell what broke in a judged run, step by step",
        codes="0 told, also of a run in which nothing broke, 254 wrong usage, or a run that is not judged",
        example="highwater explain store/demo/latest",
    )
    explain.add_argument("run", type=Path, metavar="RUN_DIR")
    explain.add_argument("--most", type=_count, default=5, metavar="N", help="findings that are told; default: 5")
    explain.set_defaults(command=_explain)


def _count(text: str) -> int:
    count = whole(text)
    if count < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return count


def _explain(options: argparse.Namespace) -> int:
    from harness.report.story import findings
    from harness.runs.analysis import command_again
    from harness.runs.store import StoreError, open_run, read_json

    store = open_run(options.run)
    if not store.results.exists():
        raise StoreError(f"{options.run}: not judged, there is no results.json: `{command_again(store)}` judges it")
    results = read_json(store.results)
    series_path = store.path / "series.json"
    series = read_json(series_path) if series_path.is_file() else {}
    run = store.read_run()
    try:
        lines = list(told(results, findings(run, results, series), options.most, terminal_width()))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        # Whatever checkers write is told; what a hand or another version left need not be.
        raise StoreError(f"{store.results}: not what checkers write: {type(error).__name__}: {error}") from None
    for line in lines:
        print(line)
    return 0


def told(results: Mapping[str, Any], found: list[Finding], most: int, width: int) -> Iterator[str]:
    """Lines of at most `width` characters: the verdict's sentence, then at most `most` stories."""
    yield from wrapped(str(results.get("sentence", "")), width)
    if not found:
        yield ""
        yield "No checker found anything to tell a story of."
    for nth, finding in enumerate(found[:most], 1):
        yield ""
        yield from wrapped(f"{nth}. {finding.title}", width)
        for claim in finding.claims:
            yield from wrapped(f"{claim.title} ({claim.kind}): {claim.summary}", width, "   ")
        for step in finding.circle:
            yield from wrapped(f"{step.lanes[0]} –{step.label}→ {step.to}: {step.text}", width, "   ")
        if finding.steps:
            yield ""
        yield from steps_told(finding.steps, width)
        if finding.left_out:
            yield from wrapped(f"{finding.left_out} more steps are left out.", width, " " * 17)
        if finding.holdings:
            yield ""
            yield from wrapped("What is left of it:", width, "   ")
        for holding in finding.holdings:
            yield from wrapped(holding, width, "   ")
    if len(found) > most:
        yield ""
        yield from wrapped(
            f"{len(found) - most} more findings: --most {len(found)} tells all; so does report.html.", width
        )
