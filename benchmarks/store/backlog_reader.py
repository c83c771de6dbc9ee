"""A process that reads a backlog for a while: ``python -m benchmarks.store.backlog_reader ADDRESS TOPICS SECONDS``.

It prints a line when it begins, and how many messages a second it read when it ends.
"""

from __future__ import annotations

import sys

from benchmarks.store.backlog import read_for_a_while


def main() -> None:
    """Read, and say how fast it was."""
    address, topics, seconds = sys.argv[1:]
    print("reads", flush=True)
    print(read_for_a_while(address, int(topics), float(seconds)), flush=True)


if __name__ == "__main__":
    main()
