"""python -m tests.hostile [--page FILE] [CODE...]: attack all request codes, or some, and print what became of each."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.hostile.codes import run
from tests.hostile.report import Report
from tests.hostile.routed import NOT_SUPPORTED, routed
from tests.hostile.world import running


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("codes", nargs="*", help="such as broker-HEART_BEAT; all when none is named")
    parser.add_argument("--page", type=Path, help="write the page of the documentation to this file")
    parser.add_argument("--all", action="store_true", help="show what went well, too")
    options = parser.parse_args()
    report, bad = Report(), 0
    with tempfile.TemporaryDirectory(prefix="hostile-") as home, running(Path(home)) as world:
        for each in [*routed(), NOT_SUPPORTED]:
            if options.codes and str(each) not in options.codes:
                continue
            result = run(world, each)
            report.note(result)
            faults = sum(bool(reading.faults) for reading in result.readings)
            bad += faults
            print(f"{each}: {len(result.readings)} attacks, {faults} with faults", flush=True)
            for reading in result.readings:
                if reading.faults or options.all:
                    print(f"  {reading}")
                for fault in reading.faults:
                    print(f"      {fault[:800]}", flush=True)
    if options.page:
        report.write(options.page)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
