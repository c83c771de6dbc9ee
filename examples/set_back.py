"""Set a running group back to the first message of a topic: what `mqadmin resetOffsetByTime -s 0` asks of brokers.

python -m examples.set_back GROUP TOPIC [-n 127.0.0.1:9876]
"""

from __future__ import annotations

import argparse

import trio

from rocketpy import Producer
from rocketpy.client.call import ask, request
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.headers.offset import ResetOffsetRequestHeader


async def set_back(namesrv: str | None, group: str, topic: str) -> None:
    """Ask every broker of the topic, which tells the members of the group; needs a group that is running."""
    header = ResetOffsetRequestHeader(group=group, topic=topic, timestamp=0, is_force=True)
    async with Producer("operator", namesrv=namesrv) as operator:
        await operator.client.routes.ensure(topic)
        for name, addresses in operator.client.routes.brokers().items():
            command = request(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
            await ask(operator.client.pool, addresses[0], command, timeout=5, doing="resetting offsets")
            print(f"{name} sets {group} back")


def main() -> None:
    parser = argparse.ArgumentParser(prog="set_back")
    parser.add_argument("group")
    parser.add_argument("topic")
    parser.add_argument("-n", "--namesrv", default=None, help='"host:port;host:port"; NAMESRV_ADDR when left out')
    options = parser.parse_args()
    trio.run(set_back, options.namesrv, options.group, options.topic)


if __name__ == "__main__":
    main()
