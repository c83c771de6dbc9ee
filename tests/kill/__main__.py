"""python -m tests.kill --cycles N --seed S: a kill loop, its table, and status 1 when a promise was broken."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.kill.loop import run
from tests.kill.table import table
from tests.kill.verdict import judge
from tools.amounts import whole_number

SHOWN = 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.kill", description="Kill servers and clients under load.")
    parser.add_argument("--cycles", type=whole_number, default=30, help="how often the broker is killed")
    parser.add_argument("--seed", type=int, default=1, help="what is done when; a run can be repeated, its timing not")
    parser.add_argument(
        "--set", type=setting, action="append", default=[], metavar="KEY=VALUE", help="a setting of the broker"
    )
    parser.add_argument("--keep", action="store_true", help="leave store and logs where they are")
    options = parser.parse_args(arguments)
    home = Path(tempfile.mkdtemp(prefix="rocketpy-kill-"))
    try:
        servers, outcome = run(home, options.cycles, options.seed, dict(options.set))
        verdict = judge(servers, outcome)
    except BaseException:
        print(f"store and logs are in {home}")
        raise
    print(table(outcome, verdict))
    wrong = [*map(str, verdict.violations), *verdict.stuck]
    for each in wrong[:SHOWN]:
        print(f"  {each}")
    if len(wrong) > SHOWN:
        print(f"  and {len(wrong) - SHOWN} more")
    if wrong or options.keep:
        print(f"store and logs are in {home}")
    else:
        shutil.rmtree(home)
    return 1 if wrong else 0


def setting(text: str) -> tuple[str, str]:
    """Return the name and the value of a setting."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return name, value


if __name__ == "__main__":
    sys.exit(main())
