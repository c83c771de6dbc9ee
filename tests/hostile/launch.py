"""python -m tests.hostile.launch BOARD PROGRAM ARGUMENTS: runs a server command or a module, and measures its loop."""

from __future__ import annotations

import importlib
import sys
from functools import partial
from pathlib import Path

import trio

from tests.broker_sim.cli.servers import MODULES
from tests.hostile.board import Board
from tests.hostile.meter import WORDS, Meter


def main() -> int:
    path, program, *arguments = sys.argv[1:]
    # The command runs trio by itself: it is handed the instrument where it asks for a loop.
    trio.run = partial(trio.run, instruments=[Meter(Board(Path(path), WORDS))])
    return int(importlib.import_module(MODULES.get(program, program)).main(arguments))


if __name__ == "__main__":
    sys.exit(main())
