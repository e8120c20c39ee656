"""`highwater-dump-log`: a log's files as text, in the lines of Kafka's own tool.

Uses `broker.log`, `broker.core` and `broker.wire` for names and formats; no part of the broker uses it. File names
come in; lines go to stdout, damage to stderr. Source: kafka.tools.DumpLogSegments.
"""
