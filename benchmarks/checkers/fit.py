"""How a quantity grows with the size: the slope of a straight line through its logarithms. 1 is linear."""

from __future__ import annotations

import math
from collections.abc import Sequence


def slope(points: Sequence[tuple[float, float]]) -> float | None:
    """Least squares through (size, quantity); None of fewer than two sizes."""
    logs = [(math.log(size), math.log(quantity)) for size, quantity in points if size > 0 and quantity > 0]
    if len({x for x, _ in logs}) < 2:
        return None
    middle_x = sum(x for x, _ in logs) / len(logs)
    middle_y = sum(y for _, y in logs) / len(logs)
    spread = sum((x - middle_x) ** 2 for x, _ in logs)
    return sum((x - middle_x) * (y - middle_y) for x, y in logs) / spread


def beyond_fixed(points: Sequence[tuple[float, float]]) -> float | None:
    """What one more micro-operation takes: the slope between the two largest sizes, which what is fixed is not in."""
    ordered = sorted(points)
    if len(ordered) < 2 or ordered[-1][0] == ordered[-2][0]:
        return None
    (small, less), (large, more) = ordered[-2:]
    return (more - less) / (large - small)
