"""Sends every line of standard input as a message, many of them under way at once, and says how many failed.

seq 100000 | python -m examples.send_soon Numbers [-n 127.0.0.1:9876]

Ctrl-C and SIGTERM end it in good order: no more lines are read, and what was accepted is delivered and counted.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections import Counter
from concurrent.futures import Future  # noqa: TC003 - as users write it

from rocketpy.sync import Message, Producer, SendResult

outcomes: Counter[str] = Counter()
signals: list[int] = []


def note(future: Future[SendResult]) -> None:
    """A done-callback: called on a thread of the producer's own, one after the other."""
    error = future.exception()
    outcomes["stored" if error is None else "failed"] += 1
    if error is not None and outcomes["failed"] == 1:
        print(f"the first failure: {error}", file=sys.stderr)


def end(number: int, _frame: object) -> None:
    """A signal handler. It ends the input, even a read that is waiting, and interrupts no send."""
    signals.append(number)
    signal.signal(number, signal.SIG_DFL)  # a second one ends the process at once
    os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())


def main() -> int:
    """Send the lines; the exit status is 1 when one of them is not known to be stored, 130 or 143 after a signal."""
    parser = argparse.ArgumentParser(prog="send_soon")
    parser.add_argument("topic", help="where the lines go")
    parser.add_argument("-n", "--namesrv", default=None, help='"host:port;host:port"; NAMESRV_ADDR when left out')
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    with Producer("lines", namesrv=options.namesrv) as producer:
        for line in sys.stdin:
            if not signals and (text := line.strip()):
                # Waits while 1024 messages are under way, so that a long input does not fill the memory.
                producer.send_soon(Message(options.topic, text)).add_done_callback(note)
    print(f"{outcomes['stored']} stored, {outcomes['failed']} failed")
    return 128 + signals[0] if signals else int(outcomes["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
