"""See what a producer does, by its statistics and the log: `python -m examples.observed [NAMESRV TOPIC]`.

Without a name server the program starts a cluster of its own.
"""

from __future__ import annotations

import logging
import sys
import threading

from examples.servers import servers
from rocketpy.sync import Message, Producer, ProducerStatistics

DONE = threading.Event()


def tell(statistics: ProducerStatistics) -> None:
    """Report the statistics. Called at every interval, in a thread; a real program may feed a dashboard."""
    latency = statistics.latency
    if statistics.sent >= 1000 and not DONE.is_set():
        print(f"{statistics.sent} messages sent, {statistics.failed} failed")
        print("brokers:", ", ".join(f"{name} took {each.sent}" for name, each in statistics.brokers.items()))
        print(
            "half of them within a second:", latency.p50 < 1, "- the slowest one in ten seconds:", latency.maximum < 10
        )
        DONE.set()


def main() -> None:
    """Send, with statistics every tenth of a second."""
    logging.basicConfig(stream=sys.stdout, format="%(message)s")
    log = logging.getLogger("rocketpy.client.lifecycle")
    log.setLevel(logging.INFO)
    log.addFilter(lambda record: record.getMessage().startswith("producer"))  # leaves out the lines of its client
    with servers(sys.argv[1] if len(sys.argv) > 1 else None) as namesrv:
        topic = sys.argv[2] if len(sys.argv) > 2 else "Clicks"
        with Producer("web", namesrv=namesrv, on_statistics=tell, statistics_interval=0.1) as producer:
            for future in [producer.send_soon(Message(topic, b"click %d" % number)) for number in range(1000)]:
                future.result()
            DONE.wait(10)


if __name__ == "__main__":
    main()
