"""Many runs, night after night: which are due, what became of them, and what that says over time.

Decides nothing of a run: each one is `highwater test` in a process of its own.
"""
