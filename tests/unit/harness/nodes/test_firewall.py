"""What the firewall commands print is read right; that they cut is shown on real nodes in tests/integration/nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from harness.nodes import firewall
from harness.nodes.base import CommandFailed, Completed, Node
from harness.nodes.firewall import Rule

NFT = """\
table ip highwater {
	chain input {
		type filter hook input priority -10; policy accept;
		ip saddr 10.77.0.2 drop
		ip saddr 10.77.0.3 meta l4proto 6 reject with tcp reset
		ip saddr 10.77.0.3 reject
		ip saddr 10.77.0.4 reject with icmp port-unreachable
	}
}
"""
IPTABLES = """\
-P INPUT ACCEPT
-P FORWARD ACCEPT
-A FORWARD -s 10.77.0.9/32 -j DROP
-N HIGHWATER
-A HIGHWATER -s 10.77.0.2/32 -j DROP
-A HIGHWATER -s 10.77.0.3/32 -p tcp -j REJECT --reject-with tcp-reset
-A HIGHWATER -s 10.77.0.3/32 -j REJECT --reject-with icmp-port-unreachable
"""


class Answers:
    """A node that answers every command with the same text."""

    name = "n1"

    def __init__(self, stdout: str = "", returncode: int = 0, stderr: str = "") -> None:
        self._answer = (returncode, stdout, stderr)

    def run(self, argv: Sequence[str], **_: Any) -> Completed:
        return Completed(tuple(argv), *self._answer)


def _tool(command: str) -> firewall._Tool:
    return next(tool for tool in firewall._TOOLS if tool.command == command)


def _node(answers: Answers) -> Node:
    return cast(Node, answers)


def test_rules_nft_listing_gives_one_rule_per_source() -> None:
    assert _tool("nft").rules(_node(Answers(NFT))) == [
        Rule("10.77.0.2", False),
        Rule("10.77.0.3", True),
        Rule("10.77.0.4", True),
    ]


def test_rules_iptables_listing_gives_one_rule_per_source() -> None:
    found = _tool("iptables-legacy").rules(_node(Answers(IPTABLES)))
    assert found == [Rule("10.77.0.2", False), Rule("10.77.0.3", True)]


def test_rules_without_our_table_is_empty() -> None:
    missing = Answers(returncode=1, stderr="Error: No such file or directory")
    assert _tool("nft").rules(_node(missing)) == []
    assert _tool("iptables").rules(_node(Answers("-P INPUT ACCEPT\n"))) == []


@pytest.mark.parametrize("command", ["nft", "iptables"])
@pytest.mark.parametrize("lost", [Answers(), Answers(returncode=126, stderr="the node is gone")])
def test_listing_that_was_lost_is_not_taken_for_no_rules(command: str, lost: Answers) -> None:
    """Else a cut that is still in force would be seen as taken back."""
    with pytest.raises(CommandFailed, match="node n1: "):
        _tool(command).rules(_node(lost))


def test_cut_node_without_any_tool_names_the_packages() -> None:
    node = _node(Answers(returncode=1))
    with pytest.raises(
        firewall.FirewallMissing, match=r"node n1 .*nft: not installed.*apt-get install iptables nftables"
    ):
        firewall.cut(node, ["10.77.0.2"])
    assert "not installed" in (firewall.probe(node) or "")


def test_cut_tool_that_lists_nothing_of_what_it_made_is_not_chosen() -> None:
    with pytest.raises(firewall.FirewallMissing, match=r"lists \[\]"):
        firewall.cut(_node(Answers("-P INPUT ACCEPT\ntable ip highwater {\n}\n")), ["10.77.0.2"])
