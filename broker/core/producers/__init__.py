"""Idempotent producers of a partition: sequence rules, transactions, and their snapshot file's format. Pure.

Batches and markers come in from who appends; duplicates, gaps, fenced epochs and how far the log is stable go out.
Source: kafka.log.ProducerStateManager, ProducerAppendInfo.
"""
