"""Machines of a run: network namespaces, containers, or hosts behind ssh, and the sandbox in which a run lives.

`base` is the protocol, `factory.make_nodes` makes them. Uses `tools`. Commands, files and cuts of links come in from
systems and nemesis; outputs and copies of files go out (docs/nodes.md, docs/adr/0008).
"""
