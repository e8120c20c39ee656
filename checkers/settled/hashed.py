"""Two hashes of an offset and a value, 40 bits each, of whole columns at once.

Each is a sum of odd multiples of the two, which is then mixed as numbers of a counter are in SplitMix64 (Steele, Lea,
Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014). Runs in Spark's Python workers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from checkers.columns.numbers import Numbers

BITS = 40
_MASK = np.uint64((1 << BITS) - 1)
_ONE = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_OTHER = (0xD6E8FEB86659FD93, 0xA0761D6478BD642F, 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53)
"""Odd factors, of an offset, of a value, and of the two steps that mix their sum."""


def hashes(offset: Numbers, value: Numbers) -> tuple[Numbers, Numbers]:
    """Both, 0 to 2**40 - 1."""
    return _mixed(offset, value, _ONE), _mixed(offset, value, _OTHER)


def _mixed(offset: Numbers, value: Numbers, factors: tuple[int, int, int, int]) -> Numbers:
    of_offset, of_value, first, second = (np.uint64(factor) for factor in factors)
    mixed: npt.NDArray[np.uint64] = offset.view(np.uint64) * of_offset
    mixed += value.view(np.uint64) * of_value
    mixed ^= mixed >> np.uint64(30)
    mixed *= first
    mixed ^= mixed >> np.uint64(27)
    mixed *= second
    mixed ^= mixed >> np.uint64(31)
    mixed &= _MASK
    return mixed.view(np.int64)
