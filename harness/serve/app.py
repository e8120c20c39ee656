"""Which address shows what.

Decides addresses and status codes. Must not know how files are opened or found, nor how a page looks.
"""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.resources import files as package_files
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from harness.report.pages import environment
from harness.serve.guard import Guard
from harness.serve.index import Index
from harness.serve.live_page import LivePage
from harness.serve.night_pages import NightPages
from harness.serve.query import page_of, parse, select
from harness.serve.record_page import RecordPage
from harness.serve.run_pages import RunPages, path_of
from harness.serve.summary import STATES, Summary

_COLUMNS = (
    ("name", "Run"),
    ("seed", "Seed"),
    ("verdict", "Verdict"),
    ("when", "Begun (UTC)"),
    ("duration", "Duration"),
    ("", "Nodes"),
    ("found", "Anomalies"),
    ("", "What was found"),
)


def app(store: Path, nights: Path | None, loopback_only: bool) -> ASGIApp:
    """The view of a store. Reads all of it once, so that the first list is there as fast as the next.

    nights: the folder in which nights of its runs are kept, None where there is none.
    """
    index = Index(store)
    index.runs()
    pages = Pages(index)
    run_pages = RunPages(index, pages.page)
    night_pages = NightPages(store, nights, pages.page)
    routes = [
        Route("/", pages.runs),
        Route("/style.css", pages.style),
        Route("/nights", night_pages.nights),
        Route("/night/{night:int}/", night_pages.night),
        Route("/compare", run_pages.compared),
        Route("/run/{folder}/{stamp}/", run_pages.run),
        Route("/run/{folder}/{stamp}/live", LivePage(index, pages.page).live),
        Route("/run/{folder}/{stamp}/record", RecordPage(index, pages.page).record),
        Route("/run/{folder}/{stamp}/report", run_pages.report),
        Route("/run/{folder}/{stamp}/raw/{path:path}", run_pages.raw),
        Route("/run/{folder}/{stamp}/view/{path:path}", run_pages.view),
    ]
    return Guard(Starlette(routes=routes, exception_handlers={HTTPException: pages.problem}), loopback_only)


class Pages:
    """One method for each address; Starlette calls those that are not `async` in threads."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._environment = environment("harness.serve", "harness.nightly")
        self._environment.filters |= {"when": _when, "duration": _duration, "ms": _ms, "below": _below}

    def runs(self, request: Request) -> Response:
        """The list."""
        query = parse(request.query_params)
        everything = self._index.runs()
        checkers = sorted({name for run in everything for name in run.found})
        shown = select(everything, query)
        return self.page(
            "runs.html", page=page_of(shown, query), total=len(everything), query=query, columns=_COLUMNS,
            states=STATES, checkers=checkers,
        )  # fmt: skip

    def style(self, _request: Request) -> Response:
        """What all pages look like."""
        text = (package_files("harness.serve") / "templates" / "style.css").read_text(encoding="utf-8")
        return Response(text, media_type="text/css")

    def problem(self, _request: Request, error: Exception) -> Response:
        """Why there is no such page."""
        assert isinstance(error, HTTPException)
        page = self._environment.get_template("problem.html").render(code=error.status_code, why=error.detail)
        return HTMLResponse(_encodable(page), error.status_code)

    def page(self, template: str, **values: object) -> Response:
        """A template with values."""
        return HTMLResponse(_encodable(self._environment.get_template(template).render(**values)))


def _encodable(text: str) -> bytes:
    """JSON may hold lone surrogates, and so may file names."""
    return text.encode("utf-8", "replace")


def _below(path: str) -> str:
    return path_of(*path.split("/"))


def _when(run: Summary) -> str:
    if run.started_s is None:
        return ""
    try:
        return datetime.fromtimestamp(run.started_s, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError):
        return ""


def _ms(value: float | None) -> str:
    return "not measured" if value is None else f"{value:,.1f} ms"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
