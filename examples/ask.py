"""Send requests for prices, and reply: `python -m examples.ask [NAMESRV]`.

The consumer makes a reply from each request, and sends it with a producer; the broker pushes it to the client that
asked. Without a name server the program starts a cluster of its own.
"""

from __future__ import annotations

import sys

from examples.servers import servers
from rocketpy import ReplyTimeoutError
from rocketpy.sync import Message, MessageExt, Producer, PushConsumer, create_reply_message

PRICES = {b"coffee": b"3.20", b"tea": b"2.80"}


def main() -> None:
    """Make three requests, one of them in vain."""
    with (
        servers(sys.argv[1] if len(sys.argv) > 1 else None) as namesrv,
        Producer("price-replies", namesrv=namesrv) as replies,
        Producer("till", namesrv=namesrv) as till,
        PushConsumer("price-desk", namesrv=namesrv) as desk,
    ):
        till.create_topic("Prices")

        def tell_price(question: MessageExt) -> None:
            price = PRICES.get(question.body)
            if price is not None:
                replies.send(create_reply_message(question, price))

        desk.subscribe("Prices", tell_price)
        desk.wait_assigned(10)

        print("coffee", till.request(Message("Prices", b"coffee"), timeout=5).body.decode())
        # A future, for callers that do something else meanwhile.
        future = till.request_soon(Message("Prices", b"tea"), timeout=5)
        print("tea", future.result().body.decode())
        try:
            till.request(Message("Prices", b"gold"), timeout=0.5)
        except ReplyTimeoutError:
            print("nobody knows the price of gold")


if __name__ == "__main__":
    main()
