"""A cluster in a process of its own: it lives on, whatever becomes of the process that is tested.

`python -m tests.matrix.remote_cluster '{"brokers": 2}'` serves until its standard input ends. Everybody who knows its
port may call the methods of the BlockingLocalCluster in it, and what `Served` adds to them.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager

from rocketpy.message import Message
from rocketpy.portal import portal
from rocketpy_broker_sim import BlockingLocalCluster
from tests.matrix.holding import Holding

__all__ = ["RemoteCluster", "remote_cluster"]


class RemoteCluster:
    """Calls it: `RemoteCluster(port).delay_sends(0.5)`. Messages come as dicts."""

    def __init__(self, port):
        self.port = port
        self.name_server_addresses = self._ask("name_server_addresses")

    def __getattr__(self, name):
        return lambda *arguments, **keywords: self._ask(name, arguments, keywords)

    def _ask(self, name, arguments=(), keywords=None):
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as link:
            link.sendall(json.dumps([name, arguments, keywords or {}]).encode() + b"\n")
            with link.makefile() as lines:
                answer = json.loads(lines.readline())
        if "error" in answer:
            raise AssertionError(f"the cluster: {answer['error']}")
        return answer["value"]


@contextmanager
def remote_cluster(**settings):
    """Start one, for the time of a block."""
    command = [sys.executable, "-m", "tests.matrix.remote_cluster", json.dumps(settings)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield RemoteCluster(int(process.stdout.readline()))
        finally:
            process.stdin.close()
            try:
                process.wait(20)
            finally:
                process.kill()


class Served:
    """What is served: a cluster, and what only these tests ask of one.

    Args:
        cluster: runs.
    """

    def __init__(self, cluster):
        self._cluster = cluster
        self._holding = Holding(cluster.trio_cluster)

    def __getattr__(self, name):
        return getattr(self._cluster, name)

    def fill(self, topic, count):
        """Store so many messages."""
        for number in range(count):
            self._cluster.send(Message(topic, b"%d" % number))

    def heal(self):
        """Let no more sends go wrong, nor wait."""
        self._cluster.heal()
        self.let_go()

    def hold_sends(self, times=1):
        """Hold the next sends until `let_go`."""
        _in_loop(self._holding.hold, times)

    def wait_held(self, count=1, timeout=5.0):
        """Wait until so many have come; whether they have."""
        return portal().call(self._holding.wait_held, count, timeout)

    def let_go(self):
        """Carry out what is held."""
        _in_loop(self._holding.let_go)

    def progress(self, group, topics):
        """What brokers know of a group: its offsets in topics of one queue, and how many queues are locked for it."""
        offsets = self._cluster.trio_cluster.brokers[0].offsets
        return {
            "offsets": {topic: offsets.query(group, topic, 0) for topic in topics},
            "locks": len(self._cluster.queue_locks(group)),
        }


def _in_loop(function, *arguments):
    async def call():
        return function(*arguments)

    return portal().call(call)


def _plain(value):
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if hasattr(value, "queue_offset"):
        return {
            "body": value.body.decode(),
            "broker": value.broker_name,
            "queue": value.queue_id,
            "offset": value.queue_offset,
            "key": value.sharding_key,
        }
    return value


def _answer(cluster, line):
    name, arguments, keywords = json.loads(line)
    try:
        found = getattr(cluster, name)
        value = _plain(found(*arguments, **keywords) if callable(found) else found)
        return {"value": value}
    except Exception as error:  # noqa: BLE001 - told to the caller
        return {"error": f"{type(error).__name__}: {error}"}


def _serve(cluster, link):
    with link, link.makefile("rw") as lines:
        for line in lines:
            lines.write(json.dumps(_answer(cluster, line)) + "\n")
            lines.flush()


def main():
    with BlockingLocalCluster(**json.loads(sys.argv[1])) as cluster, socket.create_server(("127.0.0.1", 0)) as server:
        served = Served(cluster)
        print(server.getsockname()[1], flush=True)

        def accept():
            while True:
                link, _ = server.accept()
                threading.Thread(target=_serve, args=(served, link), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        sys.stdin.read()


if __name__ == "__main__":
    main()
