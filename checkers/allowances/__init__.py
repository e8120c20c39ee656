"""What a run's configuration permits to go wrong: unclean elections, acks below all, retention.

Kept apart from what is detected: a finding comes in, allowed or not goes out.

Excuses that need more than a finding are decided elsewhere: attribution to an unclean election
(`checkers.evidence.unclean_elections`), what the settings of retention can have deleted (`checkers.history.retention`),
acks=1 record by record (`checkers.black_box.facts`), and which faults leave too few brokers for any acknowledgement
(`checkers.coverage.fault_reach`).
"""
