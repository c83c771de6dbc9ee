"""Every way out of a client: what was accepted is delivered, fails, or is said to be lost; and nobody else notices.

Each case runs in a process of its own, forked from one that has imported everything, so that it may hang, crash, end by
a signal or end the interpreter. Servers and proxies run in the process of the tests: `ground`. What a case does stands
in `blocks`, `programs_*`; what must come of it in the tests.
"""
