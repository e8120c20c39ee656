"""The page of one record's life.

Decides how an address names a record. Must not know how a life comes about (`harness.report.life`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from harness.report.life.files import RunFiles
from harness.report.life.life import Life, NoSuchPlace, life
from harness.serve.files import Refused, names, stream
from harness.serve.index import Index
from harness.serve.run_pages import asked_for, path_of
from harness.serve.summary import VERDICTS, Summary


@dataclass(frozen=True, slots=True)
class RecordPage:
    """One method for each address. page: renders a template."""

    index: Index
    page: Callable[..., Response]

    def record(self, request: Request) -> Response:
        """What stands, or stood, at an offset of a partition."""
        run = asked_for(self.index, request)
        p, offset = (request.query_params.get(name, "").strip() for name in ("p", "offset"))
        found = self._life(run, p, offset) if p or offset else None
        here = path_of("run", run.folder, run.stamp)
        return self.page("record.html", run=run, p=p, offset=offset, found=found, here=here)

    def _life(self, run: Summary, p: str, offset: str) -> Life:
        if not (offset.isascii() and offset.isdigit() and len(offset) < 19):
            raise HTTPException(404, f"offset: {offset!r} is not a whole number from 0")
        where = (run.folder, run.stamp)
        files = RunFiles(
            lambda parts: stream(self.index.store, (*where, *parts)),
            lambda parts: names(self.index.store, (*where, *parts)),
        )
        try:
            described = self.index.json(*where, "run.json")
            called = self.index.json(*where, "results.json").get("names") if run.state in VERDICTS else None
            return life(files, described, p, int(offset), called if isinstance(called, dict) else {})
        except (Refused, NoSuchPlace) as error:
            raise HTTPException(404, str(error)) from None
        except OSError as error:
            raise HTTPException(404, f"history.jsonl: {error.strerror or error}") from None
