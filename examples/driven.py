"""What an operator can do to a running consumer: `python -m examples.driven`, and in another terminal one of these.

Apache's tools reach it, by the group and the client id that it prints:

mqadmin resetOffsetByTime -n 127.0.0.1:9876 -g driven -t Orders -s 0      # everything again, while it consumes
mqadmin consumerStatus -n 127.0.0.1:9876 -g driven -i CLIENT_ID -s        # its internals, with stacks
mqadmin queryMsgById -n 127.0.0.1:9876 -i MESSAGE_ID -g driven -d CLIENT_ID    # this message once more, at once

With `--demo` it starts a cluster of its own and plays the operator too: it has the broker set the group back once.
"""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable

import trio

from rocketpy import ConsumeFromWhere, Message, MessageExt, MQClientInstance, PushConsumer
from rocketpy.client.api.call import ask, request
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.headers.offset import ResetOffsetRequestHeader
from rocketpy_broker_sim import LocalCluster


async def show(message: MessageExt) -> None:
    """The listener. It does not notice what the operator does: messages simply come again."""
    print(f"{message.queue_id}:{message.queue_offset} {message.body.decode()}", flush=True)


def consumer(namesrv: str | None, listener: Callable[[MessageExt], Awaitable[None]] = show) -> PushConsumer:
    made = PushConsumer("driven", namesrv=namesrv, consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    made.subscribe("Orders", listener)
    return made


async def set_back(client: MQClientInstance, group: str, topic: str) -> None:
    """What `mqadmin resetOffsetByTime -s 0` asks of every broker of the topic."""
    header = ResetOffsetRequestHeader(group=group, topic=topic, timestamp=0, is_force=True)
    await client.routes.ensure(topic)
    for addresses in client.routes.brokers().values():
        command = request(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
        await ask(client.pool, addresses[0], command, timeout=5, doing="resetting offsets")


async def demo() -> None:
    """Consume three messages, have the group reset, and consume them again."""
    came, arrivals = trio.open_memory_channel[MessageExt](6)

    async def listener(message: MessageExt) -> None:
        await show(message)
        await came.send(message)

    async with LocalCluster() as cluster:
        await cluster.create_topic("Orders", queues=1)
        for drink in (b"coffee", b"tea", b"cake"):
            await cluster.send(Message("Orders", drink))
        async with consumer(cluster.name_server_addresses, listener) as running:
            await cluster.wait_consumed("driven", "Orders")
            print("the operator sets the group back", flush=True)
            await set_back(running.client, "driven", "Orders")
            with trio.fail_after(30):
                for _ in range(6):
                    await arrivals.receive()


async def serve(namesrv: str | None) -> None:
    async with consumer(namesrv) as running:
        print("group driven, client id", running.status().client_id, flush=True)
        await running.run_forever()  # until Ctrl-C or SIGTERM


def main() -> None:
    parser = argparse.ArgumentParser(prog="driven")
    parser.add_argument("-n", "--namesrv", default=None, help='"host:port;host:port"; NAMESRV_ADDR when left out')
    parser.add_argument("--demo", action="store_true", help="run with servers and an operator of its own")
    options = parser.parse_args()
    trio.run(demo) if options.demo else trio.run(serve, options.namesrv)


if __name__ == "__main__":
    main()
