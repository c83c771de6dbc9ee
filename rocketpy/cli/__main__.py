"""``python -m rocketpy.cli``: the command `rocketpy`."""

from __future__ import annotations

from rocketpy.cli.entry import main

main()
