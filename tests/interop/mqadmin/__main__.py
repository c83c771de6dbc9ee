"""See what the commands print on either side; or write the page (`--page FILE`)."""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.interop import jvm
from tests.interop.apache import LINES, Apache
from tests.interop.mqadmin.known import KNOWN, REFUSED
from tests.interop.mqadmin.outcomes import only_ours, only_theirs, stale, unexplained
from tests.interop.mqadmin.page import page
from tests.interop.mqadmin.run import run


def show(version: str, *, whole: bool) -> None:
    """Run a line, and print where the texts differ."""
    found = run(Apache.resolve(version, options=jvm.QUICK))
    for said in found.said:
        print(f"\n##### {said.step.text}")
        if whole:
            print(*said.theirs, sep="\n")
        for sign, lines in (("-", only_theirs(said)), ("+", only_ours(said))):
            for line in lines:
                print(f"  {sign} {line}")
    for title, faults in (("unexplained", unexplained), ("stale", stale)):
        print(f"\n##### {title}", *faults(found, KNOWN, REFUSED), sep="\n")
    left = set(found.commands) - {each.step.command for each in found.said}
    print("\n##### without a step:", *sorted(left))


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.interop.mqadmin", description=__doc__)
    parser.add_argument("version", nargs="?", choices=LINES, help="the line to run")
    parser.add_argument("--whole", action="store_true", help="print everything, not only what differs")
    parser.add_argument("--page", type=Path, help="write the page to this file, and run nothing")
    asked = parser.parse_args()
    if asked.page is not None:
        asked.page.write_text(page(), "utf-8")
    if asked.version is not None:
        show(asked.version, whole=asked.whole)


if __name__ == "__main__":
    main()
