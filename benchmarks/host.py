"""One of our servers as a process of its own: ``python -m benchmarks.host namesrv|broker ...``.

Prints its address when it serves and stops in order at SIGTERM.
"""

from __future__ import annotations

import signal
import sys

import trio


async def name_server() -> None:
    """On any free port."""
    from rocketpy_broker_sim import open_name_server
    from rocketpy_broker_sim.config import NamesrvConfig

    config = NamesrvConfig()
    config.server.listen_port = 0
    async with open_name_server(config) as server:
        await serve(server.address)


async def broker(namesrv: str, directory: str) -> None:
    """On any free port, with its store in a directory."""
    from rocketpy_broker_sim import open_broker
    from rocketpy_broker_sim.config import BrokerConfig

    config = BrokerConfig(namesrv_addr=namesrv)
    config.server.listen_port = 0
    config.store.store_path_root_dir = directory
    async with open_broker(config) as server:
        await serve(server.address)


async def serve(address: str) -> None:
    """Until SIGTERM."""
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        print(f"boot success {address}", flush=True)
        async for _ in signals:
            return


if __name__ == "__main__":
    if sys.argv[1] == "namesrv":
        trio.run(name_server)
    else:
        trio.run(broker, sys.argv[2], sys.argv[3])
