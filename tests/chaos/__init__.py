"""Sockets cut, brokers killed and started again, under sends of all three surfaces and under consumers.

`python -m tests.chaos --seconds 120 --seed 1` runs it: one line a second, a table at the end, and status 1 when a
promise was broken. What is done when is the seed's; how the sends fall around it is not.
"""
