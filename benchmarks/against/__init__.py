"""Compares two commits: ``./dev bench --against REV`` says for each figure whether this tree is worse than REV.

`trees` checks out the other commit, `run` measures both in turn, `interval` has the arithmetic, and `comparison` the
verdict. `servers` and `spark` measure what needs servers or sessions of each tree. `printing` prints the table, and
`command` reads the command line.
"""
