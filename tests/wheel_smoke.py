"""Run by tests/test_wheel.py in an environment that holds the wheel and nothing of this tree.

Not a test module: it must not need pytest. It starts a cluster, sends one message and reads the typing marker.
"""

from __future__ import annotations

import importlib.resources
from pathlib import Path

import rocketpy.sync
import rocketpy_broker_sim


def main() -> None:
    for package in (rocketpy, rocketpy_broker_sim):
        assert "site-packages" in Path(package.__file__ or "").parts, package.__file__
        assert (importlib.resources.files(package) / "py.typed").is_file()
    with rocketpy_broker_sim.BlockingLocalCluster() as cluster:
        with rocketpy.sync.Producer("smoke", namesrv=cluster.name_server_addresses) as producer:
            result = producer.send(rocketpy.Message("Smoke", b"one"))
    assert result.message_id
    print("one message sent and stored")


if __name__ == "__main__":
    main()
