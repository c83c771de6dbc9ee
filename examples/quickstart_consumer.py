"""Apache's quickstart consumer: prints every message of TopicTest until Ctrl-C, from any name server.

python -m examples.quickstart_consumer [-n 127.0.0.1:9876]
"""

from __future__ import annotations

import argparse

import rocketpy.sync


def show(message: rocketpy.sync.MessageExt) -> None:
    """The listener: returning without an error is success."""
    line = f"{message.queue_id}:{message.queue_offset} {message.message_id} {message.body.decode()}\n"
    print(line, end="", flush=True)  # listeners run in many threads: print would write the end of the line apart


def main() -> None:
    """Consume until Ctrl-C or SIGTERM, then commit and leave the group."""
    parser = argparse.ArgumentParser(prog="quickstart_consumer")
    parser.add_argument("-n", "--namesrv", default=None, help='"host:port;host:port"; NAMESRV_ADDR when left out')
    options = parser.parse_args()
    consumer = rocketpy.sync.PushConsumer(
        "please_rename_unique_group_name_4",
        namesrv=options.namesrv,
        consume_from_where="earliest",
    )
    consumer.subscribe("TopicTest", show)
    print("Consumer Started.", flush=True)
    consumer.run_forever()


if __name__ == "__main__":
    main()
