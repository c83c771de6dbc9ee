"""Measures this project beside the floor of the language and, where they are to be had, Apache's servers and clients.

``python -m benchmarks [NAME...] [--rounds N] [--json FILE] [--plot FILE]``. Every client shape runs in a process of
its own against servers in processes of their own; the shapes take turns, so that a busy minute of the machine hits
all of them. Figures of different machines are not comparable; the ratios to the raw loop of the same run are.
"""
