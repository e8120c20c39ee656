"""Compaction: which logs are dirty, one cleaning in a process of its own, and what its damage proves.

Segments come in; cleaned ones replace them by `broker.log.swap`. Source: kafka.log.LogCleaner; docs/adr/0016.
"""
