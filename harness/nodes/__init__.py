"""Machines of a run: network namespaces, containers or machines behind SSH; `factory.make_nodes` makes them."""
