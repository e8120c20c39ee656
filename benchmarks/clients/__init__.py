"""Programs that produce and consume: our lean C client, and the tools that come with Kafka."""
