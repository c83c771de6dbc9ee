"""A guard: a small process that ends what a kill loop has started, should the loop itself be killed.

It is told of processes, line by line, and kills those that are left when its standard input ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO


class Guard:
    """Tells the guard of processes.

    Args:
        pipe: To the guard.
    """

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe

    def add(self, pid: int) -> None:
        """This one shall not outlive the loop."""
        os.write(self._pipe.fileno(), b"+%d\n" % pid)

    def remove(self, pid: int) -> None:
        """It has ended, and another process may get its number."""
        os.write(self._pipe.fileno(), b"-%d\n" % pid)


@contextmanager
def guarding() -> Iterator[Guard]:
    """A guard while the block runs."""
    # A group of its own, or Ctrl-C would end it before its time.
    process = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, process_group=0
    )
    assert process.stdin is not None
    with process:  # closes the pipe, and waits
        yield Guard(process.stdin)


def main() -> None:
    """Listen, until nobody can tell anything any more."""
    left: set[int] = set()
    for line in sys.stdin:
        (left.add if line[0] == "+" else left.discard)(int(line[1:]))
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
