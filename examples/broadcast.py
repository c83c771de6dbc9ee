"""Every instance of a service gets every price: `python -m examples.broadcast [NAMESRV]`.

Two instances live in this program. Each keeps its offsets in a file of its own, so one that is started again is not
told the same price twice. Without a name server the program starts a cluster of its own.
"""

from __future__ import annotations

import sys
import tempfile
from queue import Queue

from examples.servers import servers
from rocketpy.sync import Message, Producer, PushConsumer


def instance(name: str, namesrv: str, folder: str, prices: Queue[str]) -> PushConsumer:
    """A member of the group. Its name is the same at every start, and unique on this host."""
    consumer = PushConsumer(
        "price-caches",
        namesrv=namesrv,
        message_model="broadcasting",
        instance_name=name,
        local_offset_store_dir=folder,
    )
    consumer.subscribe("Prices", lambda message: prices.put(message.body.decode()))
    return consumer


def main() -> None:
    """Send two prices to two instances."""
    one, two = Queue[str](), Queue[str]()
    with servers(sys.argv[1] if len(sys.argv) > 1 else None) as namesrv, tempfile.TemporaryDirectory() as folder:
        with Producer("price-office", namesrv=namesrv) as producer:
            producer.create_topic("Prices", queues=1)
            with instance("one", namesrv, folder, one) as first, instance("two", namesrv, folder, two) as second:
                first.wait_assigned(30)
                second.wait_assigned(30)
                for price in ("coffee 3.20", "tea 2.80"):
                    producer.send(Message("Prices", price))
                print("one:", sorted(one.get(timeout=30) for _ in range(2)))
                print("two:", sorted(two.get(timeout=30) for _ in range(2)))


if __name__ == "__main__":
    main()
