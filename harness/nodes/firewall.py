"""Link cuts: a node drops or rejects what comes from given addresses.

Decides: which firewall tool a node has (probed there, once), and its rules. Must not know: why a link is cut
(nemesis). Invariants: all rules live in a table or chain of ours, so `heal` leaves nothing and touches nothing
else; a cut is one way (packets from these addresses to this node), and packets of established connections are
dropped like any other.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar
from weakref import WeakKeyDictionary

from harness.nodes.base import CommandFailed, Node

NAME = "highwater"
_JUMPS_MAX = 10
"""Bound of the search for jumps to our chain; `put` makes one."""


@dataclass(frozen=True, slots=True, order=True)
class Rule:
    """Packets from `source` are dropped, or refused when `reject`."""

    source: str
    reject: bool


class FirewallMissing(Exception):
    """No firewall tool works on the node; the text says what each said."""


class _Tool(ABC):
    def __init__(self, command: str) -> None:
        self.command = command

    def __str__(self) -> str:
        return self.command

    @abstractmethod
    def put(self, node: Node, rules: Iterable[Rule]) -> None:
        """Replace all our rules by these, in one transaction of the kernel."""

    @abstractmethod
    def clear(self, node: Node) -> None:
        """Remove everything of ours; nothing to remove is fine."""

    @abstractmethod
    def rules(self, node: Node) -> list[Rule]:
        """Those of ours that are in force. Raises CommandFailed where that cannot be found out."""


class _Nft(_Tool):
    _VERDICTS: ClassVar = {False: ["drop"], True: ["meta l4proto tcp reject with tcp reset", "reject"]}
    _LINE = re.compile(r"ip saddr (\S+) (drop|reject)$")
    # Deleting what may not be there: add it first.
    _EMPTY = f"add table ip {NAME}\ndelete table ip {NAME}\n"

    def put(self, node: Node, rules: Iterable[Rule]) -> None:
        lines = [
            f"add table ip {NAME}",
            f"add chain ip {NAME} input {{ type filter hook input priority -10; policy accept; }}",
        ]
        for rule in rules:
            lines += [f"add rule ip {NAME} input ip saddr {rule.source} {v}" for v in self._VERDICTS[rule.reject]]
        node.run(["nft", "-f", "-"], input_text=self._EMPTY + "\n".join(lines) + "\n")

    def clear(self, node: Node) -> None:
        node.run(["nft", "-f", "-"], input_text=self._EMPTY)

    def rules(self, node: Node) -> list[Rule]:
        done = node.run(["nft", "-n", "list", "table", "ip", NAME], check=False)
        if done.returncode != 0:
            if "No such file" in done.stderr:
                return []
            raise CommandFailed(f"node {node.name}: nft list table: {done.stderr.strip()}")
        if f"table ip {NAME}" not in done.stdout:
            # A listing that was lost on its way must not pass for a cut that was taken back.
            raise CommandFailed(f"node {node.name}: nft list table ended with 0 and listed no table")
        lines = [line.strip().removesuffix(" with icmp port-unreachable") for line in done.stdout.splitlines()]
        matches = [self._LINE.search(line) for line in lines]
        return sorted({Rule(match[1], match[2] == "reject") for match in matches if match})


class _Iptables(_Tool):
    _CHAIN = NAME.upper()
    _LINE = re.compile(rf"^-A {NAME.upper()} -s ([0-9.]+)(?:/32)? -j (DROP|REJECT)")
    _TARGETS: ClassVar = {
        False: ["-j DROP"],
        True: ["-p tcp -j REJECT --reject-with tcp-reset", "-j REJECT"],
    }

    def _do(self, node: Node, *arguments: str) -> bool:
        return node.run([self.command, "-w", "10", *arguments], check=False).returncode == 0

    def put(self, node: Node, rules: Iterable[Rule]) -> None:
        # Declaring a chain empties it; the rest of the table stays (--noflush).
        lines = ["*filter", f":{self._CHAIN} - [0:0]"]
        for rule in rules:
            lines += [f"-A {self._CHAIN} -s {rule.source} {target}" for target in self._TARGETS[rule.reject]]
        if not self._do(node, "-C", "INPUT", "-j", self._CHAIN):
            lines.append(f"-I INPUT 1 -j {self._CHAIN}")
        restore = [f"{self.command}-restore", "-w", "10", "--noflush"]
        node.run(restore, input_text="\n".join([*lines, "COMMIT"]) + "\n")

    def clear(self, node: Node) -> None:
        for _ in range(_JUMPS_MAX):
            if not self._do(node, "-D", "INPUT", "-j", self._CHAIN):
                break
        if self._do(node, "-F", self._CHAIN):
            self._do(node, "-X", self._CHAIN)

    def rules(self, node: Node) -> list[Rule]:
        # Of all chains: what a tool says of one that is not there differs from tool to tool.
        done = node.run([self.command, "-w", "10", "-S"], check=False)
        if done.returncode != 0 or "-P INPUT" not in done.stdout:
            said = done.stderr.strip() or "listed no chain INPUT"
            raise CommandFailed(f"node {node.name}: {self.command} -S ended with {done.returncode}: {said}")
        matches = [self._LINE.match(line) for line in done.stdout.splitlines()]
        return sorted({Rule(match[1], match[2] == "REJECT") for match in matches if match})


_TOOLS: tuple[_Tool, ...] = (
    _Nft("nft"),
    _Iptables("iptables-nft"),
    _Iptables("iptables-legacy"),
    _Iptables("iptables"),
)
_chosen: WeakKeyDictionary[Node, _Tool] = WeakKeyDictionary()

# TEST-NET-1: an address that no node has.
_PROBE = [Rule("192.0.2.1", False), Rule("192.0.2.2", True)]


def _tool(node: Node) -> _Tool:
    """The first tool that makes, lists and removes rules on this node."""
    if node in _chosen:
        return _chosen[node]
    reasons = []
    for tool in _TOOLS:
        try:
            if node.run(["sh", "-c", 'command -v "$1"', "sh", tool.command], check=False).returncode != 0:
                reasons.append(f"{tool}: not installed")
                continue
            before = tool.rules(node)
            tool.put(node, [*before, *_PROBE])
            seen = tool.rules(node)
            _put_or_clear(tool, node, before)
        except CommandFailed as error:
            reasons.append(f"{tool}: {error}")
            continue
        if seen == sorted({*before, *_PROBE}):
            _chosen[node] = tool
            return tool
        reasons.append(f"{tool}: made {_PROBE}, lists {seen}")
    raise FirewallMissing(
        f"node {node.name} has no working firewall: {'; '.join(reasons)}. apt-get install iptables nftables"
    )


def probe(node: Node) -> str | None:
    """None when links of this node can be cut, else what is missing."""
    try:
        _tool(node)
    except FirewallMissing as error:
        return str(error)
    return None


def tool_name(node: Node) -> str:
    """The firewall command in use on this node."""
    return str(_tool(node))


def cut(node: Node, from_addresses: Iterable[str], *, reject: bool = False) -> None:
    """Drop (or refuse) what comes to `node` from these addresses, in addition to what is cut already."""
    tool = _tool(node)
    present = tool.rules(node)
    new = [Rule(address, reject) for address in from_addresses]
    tool.put(node, list(dict.fromkeys([*present, *new])))


def heal(node: Node, from_addresses: Iterable[str] | None = None) -> None:
    """Take back every cut of this node, or only those from the given addresses."""
    tool = _tool(node)
    gone = None if from_addresses is None else set(from_addresses)
    kept = [] if gone is None else [rule for rule in tool.rules(node) if rule.source not in gone]
    _put_or_clear(tool, node, kept)


def rules(node: Node) -> list[Rule]:
    """What is cut on this node now, read back from the kernel, sorted."""
    return _tool(node).rules(node)


def _put_or_clear(tool: _Tool, node: Node, rules: list[Rule]) -> None:
    if rules:
        tool.put(node, rules)
    else:
        tool.clear(node)
