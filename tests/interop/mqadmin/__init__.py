"""Every command of Apache's `mqadmin`, on Apache's servers and on ours: what it prints is compared line by line.

`docs/reference/mqadmin.md` is the table of it. `python -m tests.interop.mqadmin --page FILE` writes it, from the same
declarations that the tests compare with what the commands print; `python -m tests.interop.mqadmin 5.3.3` runs the
commands of a line and shows what they print on either side.
"""
