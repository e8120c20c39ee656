"""Whether operations on one object have an order that explains all they returned: a search, without Spark or I/O.

`operations` says what an operation and a specification are, `linearization` searches, `register` is a specification.
What goes on Spark imports this; it goes to Spark's Python workers as it is.
"""
