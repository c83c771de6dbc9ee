"""A consumer for an operator: `python -m examples.driven [-n NAMESRV]`, and in another terminal one of these.

Apache's tools reach it, by the group and the client id that it prints:

mqadmin resetOffsetByTime -n 127.0.0.1:9876 -g driven -t Orders -s 0      # everything again, while it consumes
mqadmin consumerStatus -n 127.0.0.1:9876 -g driven -i CLIENT_ID -s        # its internals, with stacks
mqadmin queryMsgById -n 127.0.0.1:9876 -i MESSAGE_ID -g driven -d CLIENT_ID    # this message once more, at once

`python -m examples.set_back driven Orders` does the same as the first one.
"""

from __future__ import annotations

import argparse

import trio

from rocketpy import ConsumeFromWhere, MessageExt, PushConsumer


async def show(message: MessageExt) -> None:
    """The listener. It does not notice what the operator does: messages simply come again."""
    print(f"{message.queue_id}:{message.queue_offset} {message.body.decode()}", flush=True)


async def serve(namesrv: str | None) -> None:
    """Consume until Ctrl-C or SIGTERM."""
    first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    async with PushConsumer("driven", namesrv=namesrv, consume_from_where=first) as consumer:
        consumer.subscribe("Orders", show)
        print("group driven, client id", consumer.status().client_id, flush=True)
        await consumer.run_forever()


def main() -> None:
    parser = argparse.ArgumentParser(prog="driven")
    parser.add_argument("-n", "--namesrv", default=None, help='"host:port;host:port"; NAMESRV_ADDR when left out')
    trio.run(serve, parser.parse_args().namesrv)


if __name__ == "__main__":
    main()
