"""How an ensemble of somebody else's is written: host:port[,host:port…][/chroot]. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

FORM = "host:port, more of them after commas, and at the end a /chroot if one is wanted"
_SERVER = re.compile(r"(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class Ensemble:
    """servers: (host, port) each. chroot: with its slash; empty when the run is to make one of its own."""

    servers: tuple[tuple[str, int], ...]
    chroot: str


def parse(text: str) -> Ensemble:
    """Raises ValueError that says what is wrong."""
    servers: list[tuple[str, int]] = []
    listed, slash, path = text.partition("/")
    for one in listed.split(","):
        match = _SERVER.fullmatch(one.strip())
        if match is None or not 1 <= int(match["port"]) <= 65535 or not _can_be_host(match["host"]):
            raise ValueError(f"{one!r} in {text!r} is not host:port; wanted {FORM}")
        servers.append((match["host"].strip("[]"), int(match["port"])))
    if slash and re.fullmatch(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*", path) is None:
        raise ValueError(f"{slash + path!r} in {text!r} is no chroot; wanted {FORM}")
    return Ensemble(tuple(servers), slash + path)


def _can_be_host(name: str) -> bool:
    """No part of it is empty, or longer than 63 characters."""
    try:
        name.encode("idna")
    except UnicodeError:
        return False
    return True
