"""A name server and a broker in a process of their own, which ends with the process that started it.

python -m examples.spark_demo.server
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator

from rocketpy_broker_sim import BlockingLocalCluster


@contextlib.contextmanager
def own_server() -> Iterator[str]:
    """Start one; gives the address of its name server."""
    command = [sys.executable, "-m", "examples.spark_demo.server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        if not address:
            raise SystemExit("the embedded broker did not start; its error is printed above")
        yield address
        process.communicate()  # closes its standard input, and so it ends


def main() -> None:
    """Serve until standard input ends, as it does when the parent has ended in any way."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches both; the parent still has to close its clients
    # Otherwise a pull gets 32 messages at most, and whole topics are read here.
    with BlockingLocalCluster(
        max_transfer_count_on_message_in_memory=1024, max_transfer_bytes_on_message_in_memory=1 << 20
    ) as cluster:
        print(cluster.name_server_addresses, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
