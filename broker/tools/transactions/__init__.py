"""`highwater transactions`, as kafka-transactions.sh: list, describe, find hanging transactions, abort them.

Source: org.apache.kafka.tools.TransactionsCommand; KIP-664.
"""
