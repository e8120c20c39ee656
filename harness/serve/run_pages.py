"""One run: its page, its report, and its files, looked at or fetched; and two runs side by side.

Decides how much of a file is shown at once and under which policy a browser shows a report. Must not know how files are
opened.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from harness.serve.compare import Judged, compare
from harness.serve.details import checkers
from harness.serve.files import MOST_LISTED, Refused, chunks, listed, opened, part_of
from harness.serve.guard import REPORT_POLICY
from harness.serve.index import Index
from harness.serve.summary import UNFINISHED, UNREADABLE, VERDICTS, Summary

WINDOW = 1 << 16
"""Bytes of a file that are shown at once."""


def path_of(*parts: str) -> str:
    """An address's path with names of any kind in it."""
    return "".join("/" + quote(part.encode("utf-8", "surrogateescape"), safe="") for part in parts)


def asked_for(index: Index, request: Request) -> Summary:
    """The run that an address names. Raises HTTPException."""
    return _listed(index, request.path_params["folder"], request.path_params["stamp"])


def _listed(index: Index, folder: str, stamp: str) -> Summary:
    """Of what is listed, so that nothing else of the store can be asked for."""
    for run in index.runs():
        if (run.folder, run.stamp) == (folder, stamp):
            return run
    raise HTTPException(404, "no such run")


@dataclass(frozen=True, slots=True)
class RunPages:
    """One method for each address. page: renders a template."""

    index: Index
    page: Callable[..., Response]

    def run(self, request: Request) -> Response:
        """Verdict, checkers, files."""
        run = self._run(request)
        problem, results = "", {}
        try:
            results = self.index.json(run.folder, run.stamp, "results.json")
        except Refused as error:
            problem = str(error)
        files = listed(self._folder(run))
        return self.page(
            "run.html",
            run=run,
            checkers=checkers(results),
            problem=problem,
            files=files,
            cut=len(files) == MOST_LISTED,
            has_report=any(entry.path == "report.html" and entry.size is not None for entry in files),
            goes_on=run.state == UNFINISHED,
            here=path_of("run", run.folder, run.stamp),
        )

    def report(self, request: Request) -> Response:
        """The report as it was made, in an origin of its own."""
        run = self._run(request)
        return self._stream(run, ("report.html",), "text/html", {"Content-Security-Policy": REPORT_POLICY})

    def raw(self, request: Request) -> Response:
        """A file as it is, to keep; a browser does not show it, whatever it holds."""
        run, parts = self._run(request), self._parts(request)
        # The name in the path is what a browser calls it.
        return self._stream(run, parts, "application/octet-stream", {"Content-Disposition": "attachment"})

    def view(self, request: Request) -> Response:
        """A part of a file as text."""
        run, parts = self._run(request), self._parts(request)
        given = request.query_params.get("from", "0")
        if not (given.isascii() and given.isdigit() and len(given) < 19):
            raise HTTPException(404, "from: not a whole number of bytes")
        start = int(given)
        try:
            content, size = part_of(self.index.store, (run.folder, run.stamp, *parts), start, WINDOW)
        except Refused as error:
            raise HTTPException(404, str(error)) from None
        return self.page(
            "file.html",
            run=run,
            path="/".join(parts),
            text=content.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}"),
            size=size,
            start=min(start, size),
            end=min(start, size) + len(content),
            window=WINDOW,
            here=path_of("run", run.folder, run.stamp),
        )

    def compared(self, request: Request) -> Response:
        """Two runs side by side."""
        a, b = (request.query_params.get(name, "") for name in ("a", "b"))
        comparison = compare(self._judged(a), self._judged(b)) if a and b else None
        return self.page("compare.html", a=a, b=b, comparison=comparison)

    def _judged(self, name: str) -> Judged:
        """name: folder/stamp."""
        folder, _, stamp = name.partition("/")
        run = _listed(self.index, folder, stamp)
        if run.state == UNREADABLE:
            raise HTTPException(404, f"{name}: {run.sentence}")
        try:
            settings = self.index.json(run.folder, run.stamp, "run.json")
            unjudged = run.state not in VERDICTS
            results = {} if unjudged else self.index.json(run.folder, run.stamp, "results.json")
        except Refused as error:
            raise HTTPException(404, f"{name}: {error}") from None
        return Judged(settings, results)

    def _run(self, request: Request) -> Summary:
        return asked_for(self.index, request)

    def _parts(self, request: Request) -> tuple[str, ...]:
        path: str = request.path_params["path"]
        return tuple(path.split("/"))

    def _folder(self, run: Summary) -> Path:
        return self.index.store / run.folder / run.stamp

    def _stream(self, run: Summary, parts: tuple[str, ...], kind: str, headers: dict[str, str]) -> Response:
        where = (run.folder, run.stamp, *parts)
        try:
            with opened(self.index.store, where) as (_, state):
                size = state.st_size
        except Refused as error:
            raise HTTPException(404, str(error)) from None
        # A file that grows is sent as long as it was; its length is not promised, for it may be cut meanwhile.
        return StreamingResponse(chunks(self.index.store, where, size), headers=headers, media_type=kind)
