"""Which texts can be the name of a host."""

from __future__ import annotations


def can_be_host(name: str) -> bool:
    """Whether the system can look it up: no part is empty, or longer than 63 characters. Else what looks names up
    raises UnicodeError, which is no OSError.
    """
    try:
        name.encode("idna")
    except UnicodeError:
        return False
    return True
