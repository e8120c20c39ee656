"""The page of a run that goes on.

Decides when a page is shown again by itself, and after which silence it says so. Must not know what a history says.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from harness.nightly.pages import spark
from harness.serve.files import Refused
from harness.serve.index import Index
from harness.serve.live import Followers
from harness.serve.run_pages import asked_for, path_of
from harness.serve.summary import UNFINISHED

REFRESH_S = 2
QUIET_S = 10.0
"""The history of a run has several lines a second; after so long without one the page says how long it is."""
PARTITIONS = 50
"""So many are shown, the worst."""


class LivePage:
    """One method for each address. page: renders a template; wall_s: seconds since 1970."""

    def __init__(self, index: Index, page: Callable[..., Response], wall_s: Callable[[], float] = time.time) -> None:
        self._index = index
        self._page = page
        self._wall_s = wall_s
        self._followers = Followers(index.store)

    def live(self, request: Request) -> Response:
        """What the run does."""
        run = asked_for(self._index, request)
        goes_on = run.state == UNFINISHED
        try:
            origin_ns = self._index.json(run.folder, run.stamp, "run.json").get("origin_wall_ns")
            now_s = self._wall_s() - origin_ns / 1e9 if goes_on and isinstance(origin_ns, int) else 0.0
            seen = self._followers.look(run.folder, run.stamp, now_s)
        except Refused as error:
            raise HTTPException(404, str(error)) from None
        except OverflowError:
            raise HTTPException(404, "run.json: origin_wall_ns is no time") from None
        quiet = goes_on and seen.quiet_s is not None and seen.quiet_s >= QUIET_S
        return self._page(
            "live.html",
            run=run,
            seen=seen,
            picture=seen.picture,
            quiet=f"no line for {seen.quiet_s:,.0f} s" if quiet else "",
            goes_on=goes_on,
            again=REFRESH_S if goes_on and request.query_params.get("refresh") != "no" else 0,
            spark=spark,
            most=PARTITIONS,
            here=path_of("run", run.folder, run.stamp),
        )
