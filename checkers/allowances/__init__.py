"""What a run's configuration permits to go wrong: unclean elections, acks below all, retention.

Kept apart from what is detected: a finding comes in, allowed or not goes out.
"""
