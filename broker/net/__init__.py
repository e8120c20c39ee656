"""Sockets: the event loop that works in turns, connections of clients, and requests to other brokers.

Uses `broker.wire`, `broker.model` and rules of `broker.core`. Frames go to a handler that `broker.server` gives to
the listener, responses come back by their slots; a `Peer` sends a request and hands over its response, in order. Why
turns: docs/adr/0001.
"""
