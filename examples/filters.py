"""Print the messages of a topic that match an SQL92 expression, or tags, until Ctrl-C.

python -m examples.filters Orders "amount > 1000 AND region IN ('north', 'south')" [-n 127.0.0.1:9876]
python -m examples.filters Orders --tags "paid || refunded"
"""

from __future__ import annotations

import argparse
import sys

from rocketpy import FilterRefusedError
from rocketpy.sync import ConsumeFromWhere, MessageExt, PushConsumer


def show(message: MessageExt) -> None:
    """The listener: called in a thread, with one message at a time."""
    print(f"{message.topic} {message.tags or '-'} {message.body.decode(errors='replace')}", flush=True)


def main() -> int:
    """Consume; the exit status is 2 when the expression is wrong or the broker cannot filter by it."""
    parser = argparse.ArgumentParser(prog="filters")
    parser.add_argument("topic", help="the topic to consume")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("sql", nargs="?", help="an SQL92 expression over properties")
    which.add_argument("--tags", help='tags instead of an expression: "paid || refunded"')
    parser.add_argument("-n", "--namesrv", default=None, help='"host:port;host:port"; NAMESRV_ADDR when left out')
    parser.add_argument("-g", "--group", default="filters", help="the consumer group, whose offsets the broker keeps")
    options = parser.parse_args()
    consumer = PushConsumer(
        options.group,
        namesrv=options.namesrv,
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        consume_thread_max=1,
    )
    consumer.subscribe(options.topic, show, sql=options.sql, tags=options.tags)
    try:
        consumer.run_forever()
    except FilterRefusedError as error:
        print(error, file=sys.stderr)
        if error.position is not None:
            print(f"    {options.sql}\n    {' ' * (error.position - 1)}^", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
