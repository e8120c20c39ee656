"""Kafka's protocol as pure functions between bytes and values."""
