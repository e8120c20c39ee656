"""Idempotent producers of a partition: sequence rules, and their snapshot file's format. Pure.

Batches come in from who appends; duplicates, gaps and fenced epochs go out as results.
Source: kafka.log.ProducerStateManager, ProducerAppendInfo.
"""
