"""Kill loops: real processes on real files, killed again and again under load; nothing acknowledged may get lost.

    python -m tests.kill --cycles 30 --seed 1

A kill leaves what the operating system has taken, so this tries recovery and clients; power loss is another matter.
"""
