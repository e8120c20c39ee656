"""What clients saw of transactions: values, last stable offsets, committed offsets, and what was made of each input.

Judges runs whose workload has transactions. Rests on black-box facts; imports neither white-box rules nor coverage.
"""
