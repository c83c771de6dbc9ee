"""Sends every line of standard input as a message, many of them under way at once, and says how many failed.

seq 100000 | python -m examples.send_soon Numbers [-n 127.0.0.1:9876]

Ctrl-C and SIGTERM end it in good order: no more lines are read, and what was accepted is delivered and counted.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections import Counter
from concurrent.futures import Future  # noqa: TC003 - as users write it
from types import FrameType

import rocketpy.sync
from rocketpy.sync import Message, SendResult


class Lines:
    """The lines of standard input, until SIGINT or SIGTERM: the first one interrupts reading, and never a send."""

    def __init__(self) -> None:
        self.signal = 0
        self._reads = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._end)

    def _end(self, number: int, _frame: FrameType | None) -> None:
        self.signal = number
        signal.signal(number, signal.SIG_DFL)  # a second one ends the process at once
        if self._reads:
            raise KeyboardInterrupt

    def next(self) -> str:
        """The next line; empty after the last one."""
        try:
            self._reads = True
            return "" if self.signal else sys.stdin.readline()
        except KeyboardInterrupt:
            return ""
        finally:
            self._reads = False


def main() -> int:
    """Send the lines; the exit status is 1 when one of them is not known to be stored, 130 or 143 after a signal."""
    parser = argparse.ArgumentParser(prog="send_soon")
    parser.add_argument("topic", help="where the lines go")
    parser.add_argument("-n", "--namesrv", default=None, help='"host:port;host:port"; NAMESRV_ADDR when left out')
    options = parser.parse_args()

    outcomes: Counter[str] = Counter()

    def note(future: Future[SendResult]) -> None:
        """A done-callback: called on a thread of the producer's own, one after the other."""
        error = future.exception()
        outcomes["stored" if error is None else "failed"] += 1
        if error is not None and outcomes["failed"] == 1:
            print(f"the first failure: {error}", file=sys.stderr)

    lines = Lines()
    try:
        with rocketpy.sync.Producer("lines", namesrv=options.namesrv) as producer:
            for line in iter(lines.next, ""):
                if text := line.strip():
                    # Waits while 1024 messages are under way, so that a long input does not fill the memory.
                    producer.send_soon(Message(options.topic, text.encode())).add_done_callback(note)
    finally:
        print(f"{outcomes['stored']} stored, {outcomes['failed']} failed")
    return 128 + lines.signal if lines.signal else int(outcomes["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
