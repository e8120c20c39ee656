"""Fetch, ListOffsets and OffsetForLeaderEpoch, from request to response: for consumers and for followers.

Bytes leave as slices of the log's files. A follower's fetch also shows the leader how far that follower is.
Source: kafka.server.KafkaApis.handleFetchRequest, DelayedFetch, FetchSession.
"""
