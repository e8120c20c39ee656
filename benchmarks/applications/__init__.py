"""How long applications with ordinary client libraries go without success when a broker is killed.

`cli` is the command `python -m benchmarks clients-failover`, `kills` makes one kill, `roles` finds whom to kill, `gaps`
reads what the clients say, `report` writes the table; `clients` builds and names the clients in `drivers`. Each driver
is a small program for one client library with that library's default settings.
"""
