"""Sends every line of standard input as a message, many of them under way at once, and says how many failed.

seq 100000 | python -m examples.send_soon Numbers [-n 127.0.0.1:9876]

Ctrl-C and SIGTERM end it in good order: no more lines are read, and what was accepted is delivered. All of it is
counted, but for a line that is being sent as the signal strikes: that one may have no callback yet.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections import Counter
from concurrent.futures import Future  # noqa: TC003 - as users write it

import rocketpy.sync
from rocketpy.sync import Message, SendResult


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

    # SIGTERM would end the process on the spot. As an exception it leaves the block, which closes the producer.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        with rocketpy.sync.Producer("lines", namesrv=options.namesrv) as producer:
            for line in sys.stdin:
                if text := line.strip():
                    # Waits while 1024 messages are under way, so that a long input does not fill the memory.
                    producer.send_soon(Message(options.topic, text.encode())).add_done_callback(note)
    except KeyboardInterrupt:
        return 130
    finally:
        print(f"{outcomes['stored']} stored, {outcomes['failed']} failed")
    return 1 if outcomes["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
