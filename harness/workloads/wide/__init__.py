"""wide: append-poll as applications have it: requests for several partitions at once, fetch sessions, lookups by time,
some sends with acks=1, and idle spells.

`workload.Wide` is the registered kind. Setup, final phase and drains are append-poll's; operations go to the history.
"""
