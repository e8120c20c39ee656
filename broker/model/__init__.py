"""The words that all floors of the broker share: ids, errors of a log, what an append answers, backoff, timers.

Uses nothing of the broker and does no I/O. Values go in and out; nothing here decides.
"""
