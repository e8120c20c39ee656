"""The pages in a real headless browser: without a mouse, for a screen reader, without scripts of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.browser import Browser, browser
from tests.support.served import served, write_results, write_run

pytestmark = [pytest.mark.guarantee("V6"), pytest.mark.browser]

_FOCUS = "document.activeElement.name || document.activeElement.textContent.trim()"


def _tab_to(tab: Browser, what: str, most: int = 40) -> list[str]:
    """Press Tab until that has the focus; what had it on the way."""
    seen: list[str] = []
    while not seen or seen[-1] != what:
        assert len(seen) < most, seen
        tab.press("Tab")
        seen.append(str(tab.evaluate(_FOCUS)))
    return seen


def test_list_is_filtered_and_sorted_by_the_keyboard_alone(tmp_path: Path) -> None:
    store = tmp_path / "store"
    write_run(store, "bad")
    write_results(write_run(store, "good", seed=8), verdict="valid", sentence="Valid: all there.", checkers={})
    with served(store) as server, browser(tmp_path / "profile") as tab:
        tab.show(server.address)
        assert _tab_to(tab, "q")[:2] == ["Skip to the content", "Runs"]
        tab.type("all there")
        tab.press("Enter")
        tab.until("document.getElementById('count')?.textContent == '1 of 2 runs'")
        _tab_to(tab, "Seed")
        tab.press("Enter")
        tab.until("document.querySelector('th[aria-sort=ascending]')?.textContent == 'Seed'")
        assert tab.evaluate("document.getElementById('count').textContent") == "1 of 2 runs"


def test_screen_reader_hears_what_each_part_is(tmp_path: Path) -> None:
    store = tmp_path / "store"
    write_run(store, "bad")
    with served(store) as server, browser(tmp_path / "profile") as tab:
        tab.show(server.address)
        spoken = tab.spoken()
        for part in (
            ("navigation", "Pages"),
            ("search", "Runs"),
            ("searchbox", "Words"),
            ("textbox", "Seed"),
            ("combobox", "Verdict"),
            ("region", "Table of runs"),
            ("columnheader", "Begun (UTC)"),
            ("heading", "Runs"),
        ):
            assert part in spoken, (part, spoken)
        unnamed = [role for role, name in spoken if role in ("link", "button", "textbox", "combobox") and not name]
        assert unnamed == []


def test_thousand_runs_are_shown_in_pages_that_keep_the_filters(tmp_path: Path) -> None:
    store = tmp_path / "store"
    for number in range(1_000):
        write_run(store, f"run{number % 10}", f"20260101T000000.{number:03}Z", seed=number)
    with served(store) as server, browser(tmp_path / "profile") as tab:
        tab.show(server.address)
        assert tab.evaluate("document.querySelectorAll('tbody tr').length") == 100
        spoken = tab.spoken()
        assert ("navigation", "Pages of the list") in spoken
        assert [name for role, name in spoken if role == "link" and name.startswith("Page ")] == [
            f"Page {number} of 10" for number in (1, 2, 3, 10)
        ]
        # By the keyboard: filtered first, and the page after it keeps the filter.
        _tab_to(tab, "q")
        tab.type("run1 run")
        tab.press("Enter")
        tab.until("document.getElementById('count')?.textContent == '100 of 1000 runs'")
        tab.show(server.address + "?name=run")
        _tab_to(tab, "Next page", most=200)
        tab.press("Enter")
        tab.until("document.getElementById('count')?.textContent == '1000 of 1000 runs, 101 to 200 here'")
        assert tab.evaluate("document.querySelector('[aria-current=page]').textContent") == "2"
        assert tab.evaluate("document.querySelector('input[name=name]').value") == "run"
