"""Rates over sliding windows, and who is above one. Pure: time is a value.

Source: kafka.server.ReplicationQuotaManager, org.apache.kafka.common.metrics.stats.Rate.
"""
