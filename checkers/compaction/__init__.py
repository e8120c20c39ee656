"""What compaction leaves of each key, and which rules do not hold where records go on purpose.

Judges runs of a compacted topic. `keys` rests on black-box facts, beside `transactions` and `applications`.
"""
