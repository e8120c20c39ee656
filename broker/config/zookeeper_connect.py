"""The form of `zookeeper.connect`: host[:port][,host[:port]…][/chroot].

Decides what is refused before anything connects: whoever is given the text afterwards names neither the setting nor
what would be right. A port may be left out (2181), and the chroot may end with a slash.
Source: org.apache.zookeeper.client.ConnectStringParser, org.apache.zookeeper.common.PathUtils.
"""

from __future__ import annotations

import re

from broker.config.hosts import can_be_host
from broker.config.values import ConfigError

_SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+(?:%\w+)?\]|[\w.-]+)(?::([0-9]{1,5}))?")
_WANTED = "must look like host:port[,host:port...][/chroot], for example localhost:2181"


def check_connect(text: str) -> None:
    """Raises ConfigError."""
    servers, _, chroot = text.partition("/")
    for server in servers.split(","):
        match = _SERVER.fullmatch(server.strip())
        if match is None or not 1 <= int(match[2] or 2181) <= 65535 or not can_be_host(match[1]):
            raise ConfigError(f"zookeeper.connect={text!r}: {server.strip()!r} is no host:port; it {_WANTED}")
    names = chroot.removesuffix("/").split("/") if chroot else []
    if any(name in ("", ".", "..") for name in names):
        raise ConfigError(f"zookeeper.connect={text!r}: {'/' + chroot!r} is no path of znodes; it {_WANTED}")
