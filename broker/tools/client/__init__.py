"""A small synchronous client: connections, who leads what, retries until a deadline, producing, fetching, groups.

Uses `broker.wire` and `broker.config.properties`. One thread, no caches but the addresses of brokers and the leaders of
partitions; every operation has a deadline.
"""
