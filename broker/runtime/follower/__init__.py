"""How this broker follows: one fetcher for each leader, truncation to agreement, and what a fetch response does to the
log.

Roles come in from `broker.runtime.replicas`; requests go out by a `Peer`.
Source: kafka.server.ReplicaFetcherThread, AbstractFetcherThread.
"""
