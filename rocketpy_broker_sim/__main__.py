"""`python -m rocketpy_broker_sim` is rocketpy-broker-sim."""

from __future__ import annotations

import sys

from rocketpy_broker_sim.cli.sim import main

if __name__ == "__main__":
    sys.exit(main())
