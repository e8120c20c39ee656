"""This broker and Apache Kafka measured beside each other: same machine, same clients, same settings, checked rows.

Uses `harness` for connections, ZooKeeper and Java; nothing imports it, and it is not installed. A plan of rows comes in
from the command line; a folder with results, a table and plots goes out (docs/benchmarks.md).
"""
