"""Measures this project beside raw loops in Python and, if they are available, Apache's servers and clients.

``python -m benchmarks [NAME...] [--rounds N] [--json FILE] [--plot FILE]``. Every measure of a client runs in
its own process, against servers in processes of their own. Measures take turns, so that a busy minute of the machine
affects all of them. Figures of different machines cannot be compared, but their ratios to the raw loop of the same run
can.
"""
