"""The lab's own clients: one operation is one request, without retries; and librdkafka, which repeats the drain.

Uses `broker.wire`, `operations` and `plan`. Operations come in from the interpreter, addresses from the system;
responses go back as completions, samples of leaders and ISRs to the history.
"""
