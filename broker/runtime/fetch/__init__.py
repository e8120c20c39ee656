"""Fetch, ListOffsets and OffsetForLeaderEpoch, from request to answer: for consumers and for followers.

Bytes leave as slices of the log's files. A follower's fetch also tells the leader how far that follower is.
Source: kafka.server.KafkaApis.handleFetchRequest, DelayedFetch, FetchSession.
"""
