"""recreate: append-poll, and beside it topics that are deleted and made anew under their names while they are used.

`workload.Recreate` is the registered kind. Setup, final phase and drains of the run's own topic are append-poll's.
"""
