"""One module for each API: its request and its response, as dataclasses whose fields say in which versions they are.

Uses `broker.wire.schema` and its neighbours. `broker.wire.api` says which versions are served; Produce and Fetch have
codecs by hand beside their fields. Source: Kafka's message definitions.
"""
