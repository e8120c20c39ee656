"""What the lab says of its own kinds of faults, for tests that write histories or judge them without a nemesis."""

from __future__ import annotations

from collections.abc import Mapping

from nemesis.catalogue import load_catalogue


def said_of(kind: str) -> Mapping[str, object]:
    """`family` and `effects`, as a line of the history has them."""
    known = load_catalogue().kinds[kind]
    return {"family": known.family, "effects": sorted(known.effects)}


def effects_of(kind: str) -> frozenset[str]:
    """As the checkers keep them."""
    return load_catalogue().kinds[kind].effects
