"""Send messages in batches that form by themselves: `python -m examples.auto_batching [NAMESRV TOPIC]`.

The program sends one by one; with `linger` the producer puts the messages into frames by itself. Without a name server
the program starts a cluster of its own.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

from examples.servers import servers
from rocketpy.sync import Message, Producer


def main() -> None:
    """Send from one thread that does not wait, then from many threads that wait."""
    with servers(sys.argv[1] if len(sys.argv) > 1 else None) as namesrv:
        topic = sys.argv[2] if len(sys.argv) > 2 else "Clicks"
        # A message lingers for at most ten milliseconds.
        with Producer("web", namesrv=namesrv, linger=0.01) as producer:
            futures = [producer.send_soon(Message(topic, b"click %d" % number)) for number in range(10_000)]
            places = {(result.queue, result.queue_offset) for result in (future.result() for future in futures)}
            print(f"{len(places)} messages from one thread, each with a place of its own")

            with ThreadPoolExecutor(16) as pool:
                results = list(pool.map(producer.send, (Message(topic, b"view %d" % n) for n in range(2_000))))
            print(f"{len({result.message_id for result in results})} messages from 16 threads")


if __name__ == "__main__":
    main()
