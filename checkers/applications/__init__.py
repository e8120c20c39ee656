"""What applications of real clients promise: how often each record is processed.

Judges runs whose workload has such applications. Rests on black-box facts, beside `transactions`.
"""
