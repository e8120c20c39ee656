"""How this broker follows: one fetcher a leader, truncation to agreement, and what a fetched answer does to the log.

Roles come in from `broker.runtime.replicas`; requests go out by a `Peer`.
Source: kafka.server.ReplicaFetcherThread, AbstractFetcherThread.
"""
