"""Watch how far a consumer group is behind, or all groups: one line for each that is.

python -m examples.watch_lag -n 127.0.0.1:9876
python -m examples.watch_lag billing --every 10 -n 127.0.0.1:9876
"""

from __future__ import annotations

import argparse
import time

from rocketpy import BrokersFailedError
from rocketpy.admin import GroupLag
from rocketpy.sync import Admin


def lags(admin: Admin, group: str | None) -> tuple[GroupLag, ...]:
    """The lag of one group, or of all; of the brokers that answer, if some do not."""
    try:
        return admin.offsets.lags() if group is None else (admin.offsets.lag(group),)
    except BrokersFailedError as error:
        print(error)
        return error.result if group is None else (error.result,)


def show(found: GroupLag) -> None:
    """A group, and its queues that have something left to consume."""
    print(f"{found.group}: {found.lag} behind, {found.in_flight} in flight, {found.rate:.1f} consumed a second")
    for each in found.queues:
        if each.lag:
            since = "" if each.last_consumed_at is None else f", stored until {each.last_consumed_at:%H:%M:%S} consumed"
            print(f"  {each.queue}: {each.committed} of {each.end}{since}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="watch_lag")
    parser.add_argument("group", nargs="?", help="the consumer group; all groups without it")
    parser.add_argument("-n", "--namesrv", default="127.0.0.1:9876")
    parser.add_argument("--every", type=float, default=5, help="seconds between two looks")
    parser.add_argument("--times", type=int, help="how many looks; without end if it is left out")
    options = parser.parse_args()
    looks = 0
    with Admin(namesrv=options.namesrv) as admin:
        while options.times is None or looks < options.times:
            if looks:
                time.sleep(options.every)
            for found in lags(admin, options.group):
                show(found)
            looks += 1


if __name__ == "__main__":
    main()
