"""A server in a process of its own, with as many file descriptors as it is told.

It prints its port, echoes, and says on request how it is: descriptors, connections, processor time.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import sys
import time

import trio

from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import RequestDispatcher
from rocketpy.remoting.network import TcpNetwork
from rocketpy.remoting.server import RemotingServer, serve
from rocketpy.wire.command import RemotingCommand
from tests.remoting.helpers import ECHO, echo

STATE = 7010


def open_descriptors() -> int:
    """How many there are, found without opening another one."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    found = 0
    for number in range(limit):
        try:
            os.fstat(number)
        except OSError:
            continue
        found += 1
    return found


async def main() -> None:
    servers: list[RemotingServer] = []

    def state(_: Connection, request: RemotingCommand) -> RemotingCommand:
        told = {
            "descriptors": open_descriptors(),
            "connections": len(servers[0].connections),
            "cpu": time.process_time(),
        }
        return request.answer(body=json.dumps(told).encode())

    async with trio.open_nursery() as nursery:
        dispatcher = RequestDispatcher({ECHO: echo, STATE: state})
        servers.append(await nursery.start(serve, TcpNetwork(), "127.0.0.1", 0, dispatcher))
        sys.stdout.write(servers[0].addresses[0].rpartition(":")[2] + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[1])))
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    trio.run(main)
