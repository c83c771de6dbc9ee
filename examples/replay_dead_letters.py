"""List the dead letters of a group, and send those of one topic again.

python -m examples.replay_dead_letters billing --topic Orders -n 127.0.0.1:9876          # only lists and counts
python -m examples.replay_dead_letters billing --topic Orders -n 127.0.0.1:9876 --send
"""

from __future__ import annotations

import argparse

from rocketpy.sync import MessageExt, replay_dead_letters


def main() -> None:
    parser = argparse.ArgumentParser(prog="replay_dead_letters")
    parser.add_argument("group", help="the consumer group that gave the messages up")
    parser.add_argument("-n", "--namesrv", default="127.0.0.1:9876")
    parser.add_argument("--topic", help="only messages that came from this topic")
    parser.add_argument("--limit", type=int, help="how many at most")
    parser.add_argument("--send", action="store_true", help="send them; without it they are only listed")
    options = parser.parse_args()

    def wanted(message: MessageExt) -> bool:
        if options.topic not in (None, message.topic):
            return False
        print(message.topic, message.message_id, message.body[:60])
        return True

    done = replay_dead_letters(
        options.group, namesrv=options.namesrv, wanted=wanted, limit=options.limit, dry_run=not options.send
    )
    count = f"{done.replayed} {'sent' if options.send else 'to send'}"
    print(f"{count}, {done.skipped} skipped, {done.remaining} left")


if __name__ == "__main__":
    main()
