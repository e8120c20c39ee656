"""Sockets: the event loop, the listener's connections, and the outgoing peers."""
