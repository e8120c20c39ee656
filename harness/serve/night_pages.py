"""Nights of runs: the list of them, one night, and how figures moved over the nights before it.

Decides where a store's nights are looked for, and which runs of a night have a page. Must not know how nights are kept
or compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from harness.nightly.history import FILE, NightRow, RunRow, read_history
from harness.nightly.jobs import NO_VERDICT, VERDICTS, WORST_FIRST
from harness.nightly.pages import spark
from harness.nightly.trends import LABELS, NIGHTS_SHOWN, flaky, last_attempts, moved, trends, tried_again
from harness.runs.store import StoreError
from harness.serve.run_pages import path_of

RUNS_BELOW = "store"
"""Where `highwater nightly` keeps the runs, below its folder."""
_RANK = {VERDICTS.get(code, NO_VERDICT): index for index, code in enumerate(WORST_FIRST)}


def places(given: Path) -> tuple[Path, Path | None]:
    """(the store, the folder of its nights or None): a folder of nights may be given, or the store in it."""
    if (given / FILE).is_file() and (given / RUNS_BELOW).is_dir():
        return given / RUNS_BELOW, given
    parent = given.absolute().parent
    return given, parent if given.name == RUNS_BELOW and (parent / FILE).is_file() else None


def said(night: NightRow) -> str:
    """What a night counts as: the word for its exit code, or that it has not ended."""
    return "not ended" if night.exit_code is None else VERDICTS.get(night.exit_code, NO_VERDICT)


@dataclass(frozen=True, slots=True)
class NightPages:
    """One method for each address. folder: of nights, None where the store is of none; page: renders a template."""

    store: Path
    folder: Path | None
    page: Callable[..., Response]

    def nights(self, _request: Request) -> Response:
        """All of them, the newest first."""
        nights: list[NightRow] = []
        counts: dict[int, dict[str, int]] = {}
        if self.folder is not None:
            try:
                with read_history(self.folder) as history:
                    nights, counts = history.every_night(), history.counts()
            except StoreError as error:
                raise HTTPException(404, str(error)) from None
        return self.page("nights.html", nights=nights, counts=counts, said=said, kept=self.folder is not None)

    def night(self, request: Request) -> Response:
        """One, with the nights of its name before it."""
        number = request.path_params["night"]
        if self.folder is None:
            raise HTTPException(404, "no nights are kept beside this store")
        try:
            with read_history(self.folder) as history:
                night = next((one for one in history.every_night() if one.id == number), None)
                if night is None:
                    raise HTTPException(404, "no such night")
                before = [one for one in history.nights(night.name) if one.id <= night.id][-NIGHTS_SHOWN:]
                runs = history.of_nights([one.id for one in before])
        except StoreError as error:
            raise HTTPException(404, str(error)) from None
        mine = [row for row in runs if row.night == night.id]
        counting = last_attempts(mine)
        over_time = trends(before, runs)
        notes = [
            f"came to no verdict at first: {row.name} seed {row.seed}: {row.result.sentence}"
            for row in tried_again(mine)
            if row not in counting
        ]
        notes += [f"flaky: {one.text}" for one in flaky(runs)]
        notes += [f"not as usual: {one.text}" for one in moved(over_time)]
        return self.page(
            "night.html",
            night=night,
            state=said(night),
            runs=sorted(counting, key=lambda row: (_RANK.get(row.counts_as, 0), row.name, row.seed)),
            notes=notes,
            trends=over_time,
            labels=LABELS,
            spark=spark,
            address=self._address,
        )

    def _address(self, row: RunRow) -> str | None:
        """Of a run's page; None where its folder is not in this store, or was removed."""
        if row.result.run_dir is None or row.removed is not None:
            return None
        try:
            parts = Path(row.result.run_dir).relative_to(self.store.resolve()).parts
        except ValueError:
            return None
        return path_of("run", *parts) + "/" if len(parts) == 2 else None
