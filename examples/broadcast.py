"""Every instance of a service gets every price: `python -m examples.broadcast [NAMESRV]`.

Two instances live in this program. Each keeps its offsets in a file of its own, so one that is started again is not
told the same price twice. Without a name server the program starts a cluster of its own.
"""

from __future__ import annotations

import sys
import tempfile
from queue import Queue

from examples.servers import servers
from rocketpy.sync import Message, MessageExt, MessageModel, Producer, PushConsumer


class Cache:
    """The prices that one instance knows; its listener is called in a thread."""

    def __init__(self) -> None:
        self.prices: dict[str, str] = {}
        self.news: Queue[str] = Queue()

    def on_price(self, message: MessageExt) -> None:
        name, _, price = message.body.decode().partition(" ")
        self.prices[name] = price
        self.news.put(name)


def instance(name: str, namesrv: str, folder: str, cache: Cache) -> PushConsumer:
    """A member of the group. Its name is the same at every start, and unique on this host."""
    consumer = PushConsumer(
        "price-caches",
        namesrv=namesrv,
        message_model=MessageModel.BROADCASTING,
        instance_name=name,
        local_offset_store_dir=folder,
    )
    consumer.subscribe("Prices", cache.on_price)
    return consumer


def main() -> None:
    """Send two prices to two instances."""
    one, two = Cache(), Cache()
    with servers(sys.argv[1] if len(sys.argv) > 1 else None) as namesrv, tempfile.TemporaryDirectory() as folder:
        with Producer("price-office", namesrv=namesrv) as producer:
            producer.create_topic("Prices", queues=1)
            with instance("one", namesrv, folder, one) as first, instance("two", namesrv, folder, two) as second:
                first.wait_assigned(30)
                second.wait_assigned(30)
                for price in ("coffee 3.20", "tea 2.80"):
                    producer.send(Message("Prices", price.encode()))
                for cache in (one, two):
                    cache.news.get(timeout=30)
                    cache.news.get(timeout=30)
    print("one:", sorted(one.prices.items()))
    print("two:", sorted(two.prices.items()))


if __name__ == "__main__":
    main()
