"""What of a log is on disk for good, and the flushes that make it so.

Written ends come in from the log; recovery points go out. Source: kafka.log.LogManager.flushDirtyLogs; docs/adr/0014.
"""
