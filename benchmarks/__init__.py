"""This broker and Apache Kafka measured beside each other: same machine, same clients, same settings, checked rows."""
