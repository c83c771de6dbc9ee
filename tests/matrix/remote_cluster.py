"""A cluster in a process of its own: it lives on, whatever becomes of the process that is tested.

`python -m tests.matrix.remote_cluster '{"brokers": 2}'` serves until its standard input ends. Everybody who knows its
port may call the methods of the BlockingLocalCluster in it.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager

from rocketpy_broker_sim import BlockingLocalCluster

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
        print(server.getsockname()[1], flush=True)

        def accept():
            while True:
                link, _ = server.accept()
                threading.Thread(target=_serve, args=(cluster, link), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        sys.stdin.read()


if __name__ == "__main__":
    main()
