"""A program for tests of `zygote`: says what it was told, and ends with a status or at a signal."""

from __future__ import annotations

import os
import signal
import sys


def main() -> int:
    status = sys.argv[1]
    try:
        print(sys.argv[1:], os.getcwd(), dict(os.environ), sep="\n", flush=True)
        print("on standard error", file=sys.stderr)
        if not status.isdecimal():
            signal.pause()
    except KeyboardInterrupt:
        return 130
    return int(status)
