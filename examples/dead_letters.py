"""Count the dead letters of every group, and replay those of one in portions, as an administrator does.

python -m examples.dead_letters -n 127.0.0.1:9876
python -m examples.dead_letters billing --portion 10 -n 127.0.0.1:9876
"""

from __future__ import annotations

import argparse

from rocketpy.sync import Admin


def count(admin: Admin) -> None:
    """One line for each group that has dead letters which were not replayed yet."""
    for group in admin.groups.list():
        if not admin.messages.dead_letters(group, max_messages=1):
            continue
        found = admin.messages.replay_dead_letters(group, dry_run=True)
        if found.replayed:
            print(f"{group}: {found.replayed} dead letters, {dict(found.topics)}")


def replay(admin: Admin, group: str, portion: int) -> None:
    """A few at a time, until there are none or the group gives some of them up again."""
    while True:
        before = admin.messages.replay_dead_letters(group, dry_run=True).replayed
        done = admin.messages.replay_dead_letters(group, limit=portion)
        print(f"{done.replayed} sent again to {', '.join(done.topics) or 'no topic'}, {done.remaining} left")
        if not done.remaining:
            return
        if admin.messages.replay_dead_letters(group, dry_run=True).replayed > before - done.replayed:
            print(f"{group} has given up more messages meanwhile: see why before you replay the rest")
            return


def main() -> None:
    parser = argparse.ArgumentParser(prog="dead_letters")
    parser.add_argument("group", nargs="?", help="the consumer group to replay; without it, all groups are counted")
    parser.add_argument("-n", "--namesrv", default="127.0.0.1:9876")
    parser.add_argument(
        "--portion", type=int, default=100, help="how many are sent before the group is looked at again"
    )
    options = parser.parse_args()
    with Admin(namesrv=options.namesrv) as admin:
        if options.group is None:
            count(admin)
        else:
            replay(admin, options.group, options.portion)


if __name__ == "__main__":
    main()
