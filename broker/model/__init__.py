"""The types that all floors of the broker share: ids, errors of a log, the result of an append, backoff, timers.

Uses nothing of the broker and does no I/O. Values go in and out; nothing here decides.
"""
