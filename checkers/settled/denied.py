"""Acknowledgements that an answer contradicts, or is stale by; how long a partition was without any.

Of one partition: no rule has a use for the others. Runs in Spark's Python workers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from checkers.columns.numbers import LEAST, Mask, Numbers, numbers
from checkers.settled.marks import Answers, Sends


def denied(sends: Sends, answers: Answers) -> Mask:
    """Which sends were acknowledged before a request was begun whose answer is of less (`answers.answers_of`, bound).

    Of each send whether the latest of such requests was begun after it was acknowledged.
    """
    (bound, there), (invoke, begun) = answers.of("bound"), answers.of("invoke")
    bound, invoke = bound[there & begun], invoke[there & begun]
    order = np.argsort(bound, kind="stable")
    latest = np.append(LEAST, np.maximum.accumulate(invoke[order]))
    below = np.searchsorted(bound[order], sends.last, side="right")
    mask: Mask = sends.acked & (latest[below] > sends.complete)
    return mask


def available(load: pa.Table, acked_ns: Numbers, stops: Sequence[int]) -> Mapping[str, float]:
    """What `checkers.black_box.availability` measures of the main phase. load: see `scans.Operations`. acked_ns: when
    its sends were acknowledged. stops: when each fault was first taken back.
    """
    sends = int(numbers(load.column("sends").combine_chunks())[0].sum())
    if not sends:
        return {}
    begin = numbers(load.column("begin").combine_chunks())[0].min()
    end = numbers(load.column("end").combine_chunks())[0].max()
    at = np.sort(np.concatenate([acked_ns, [begin, end]]))
    found = {"worst_ms": float(np.diff(at).max() / 1e6), "acknowledged": float(len(acked_ns)), "sends": float(sends)}
    of_acked = np.sort(acked_ns)
    first = np.searchsorted(of_acked, np.array(stops, np.int64), side="right")
    waits = [int(of_acked[at]) - stop for at, stop in zip(first, stops, strict=True) if at < len(of_acked)]
    return {**found, "worst_recovery_ms": max(waits) / 1e6} if waits else found
