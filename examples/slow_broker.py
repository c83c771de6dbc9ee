"""Senders that avoid a slow broker until it has recovered: `python -m examples.slow_broker`.

One of three brokers takes 0.6 s for every message for a while. The latency table has shorter times than Java's, so that
the program ends within seconds.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor

from rocketpy.sync import LatencyTable, Message, Producer
from rocketpy_broker_sim import BlockingLocalCluster

TABLE = LatencyTable(latency_max_ms=(500, 1000), not_available_ms=(500, 5000), isolation_ms=1000)
SENDERS = 16


def sends_in(seconds: float, producer: Producer) -> int:
    """The number of messages that `SENDERS` threads get acknowledged in so many seconds."""
    until = time.monotonic() + seconds

    def keep_sending(sender: int) -> int:
        count = 0
        while time.monotonic() < until:
            producer.send(Message("Orders", b"from sender %d" % sender))
            count += 1
        return count

    with ThreadPoolExecutor(SENDERS) as threads:
        return sum(threads.map(keep_sending, range(SENDERS)))


def main() -> None:
    """Send with and without the strategy while a broker is slow, and then until it has recovered."""
    logging.getLogger("rocketpy").setLevel(logging.ERROR)  # the warnings say the same as this program prints
    with BlockingLocalCluster(brokers=3) as cluster:
        namesrv = cluster.name_server_addresses
        cluster.create_topic("Orders")
        with (
            Producer("patient", namesrv=namesrv) as patient,
            Producer("careful", namesrv=namesrv, send_latency_enable=True, latency_table=TABLE) as careful,
        ):
            cluster.delay_sends(0.6, times=1_000_000, broker=0)
            sends_in(1, careful)
            slow = careful.statistics().faults.brokers["broker-a"]
            print(f"broker-a takes longer than {slow.latency // 0.5 * 0.5:.1f} s and is passed over")
            print(f"twice as much is sent with the strategy: {sends_in(1, careful) > 2 * sends_in(1, patient)}")
            cluster.heal()
            while careful.statistics().faults.brokers:
                sends_in(0.1, careful)
            print("all are well again")


if __name__ == "__main__":
    main()
