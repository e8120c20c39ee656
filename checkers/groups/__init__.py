"""What consumer groups promise: who owns what, whose commits count, and that a committed offset stays committed.

Takes the history's `coordination`, `requests` and `marks`; hands findings to verdicts. Each checker is a module;
`facts` has what they share.
"""
