"""Apache's quickstart producer: 1,000 messages to TopicTest, each answered, against any name server.

python -m examples.quickstart_producer [-n 127.0.0.1:9876]
"""

from __future__ import annotations

import argparse

import rocketpy.sync
from rocketpy.sync import Message

MESSAGE_COUNT = 1000


def main() -> None:
    """Send them one after the other and print every result."""
    parser = argparse.ArgumentParser(prog="quickstart_producer")
    parser.add_argument("-n", "--namesrv", default=None, help='"host:port;host:port"; NAMESRV_ADDR when left out')
    options = parser.parse_args()
    with rocketpy.sync.Producer("please_rename_unique_group_name", namesrv=options.namesrv) as producer:
        for number in range(MESSAGE_COUNT):
            message = Message("TopicTest", f"Hello RocketMQ {number}", tags="TagA")
            print(producer.send(message))


if __name__ == "__main__":
    main()
