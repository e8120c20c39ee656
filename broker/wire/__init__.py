"""Kafka's protocol as pure functions between bytes and values: primitives, headers, record batches, error codes.

Uses no other part of the broker; the lab's clients use it, too. Bytes come in as memoryviews, frames and batches go
out; what cannot be read raises. Produce and Fetch are coded by hand, the rest by the tables of `messages`
(docs/adr/0002).
"""
