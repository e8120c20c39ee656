"""Which pieces of a long history are settled: nothing in them can be part of a finding, so that they only count.

Uses `black_box` for what a response tells, `history` and what is below. A whole history comes in; the same without its
settled records, and what they add to the figures, goes out. The rules know nothing of it.
"""
