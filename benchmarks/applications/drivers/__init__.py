"""One program for each client library: `PROGRAM WORK BOOTSTRAP TOPIC ID`, until it is killed.

WORK: `produce` (a record every 10 ms to TOPIC), `commit` (an offset commit every 10 ms as the only member of the group
ID, which subscribes to TOPIC) or `transact` (a transaction of one record in TOPIC every 10 ms, transactional id ID).
Prints one line for each success, with the time in ns by CLOCK_MONOTONIC, and `failed: ` with the text of each error
that the library hands to the application. Everything that is not named here is the library's default.
"""
