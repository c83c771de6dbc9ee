"""Two commits side by side: ``./dev bench --against REV`` says of each figure whether this tree is worse than REV.

`trees` brings the other commit, `run` measures both in turn, `interval` is the arithmetic, `comparison` the verdict,
`servers` and `spark` what has servers or sessions of each tree, `printing` the table, `command` the command line of it.
"""
