"""A function of the user's forks where rocketpy calls it: the child ends when it returns, and the parent goes on."""

from __future__ import annotations

import os
import time

import pytest

from rocketpy import LocalTransactionState, Message
from tests.aio.running import LIMIT
from tests.surfaces.surface import call, entered

if not hasattr(os, "fork"):
    pytest.skip("there are no forks here", allow_module_level=True)

pytestmark = [
    pytest.mark.waits("a child that ends, and a report at an interval"),
    # Python 3.12 and later warn of every fork of a process with threads.
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),
]


class Forks:
    """Forks when it is called for the first time; the child returns to its caller."""

    def __init__(self, returns=None):
        self.children, self._returns = [], returns

    def __call__(self, *arguments):
        if not self.children:
            child = os.fork()
            if child == 0:
                self.children.append(-1)
            else:
                self.children.append(child)
        return self._returns

    def status(self):
        """How the child ended."""
        (child,) = self.children
        until = time.monotonic() + LIMIT
        while time.monotonic() < until:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.01)
        os.kill(child, 9)
        os.waitpid(child, 0)
        return "it did not end"


@pytest.mark.slow
@pytest.mark.parametrize("linger", [None, 0.005])
@pytest.mark.parametrize("name", ["check_forbidden", "before_send", "after_send"])
@pytest.mark.parametrize("surface", ["asyncio", "blocking"], indirect=True)
def test_threat_L12_a_send_hook_that_forks_in_a_thread_of_ours(surface, cluster, namesrv, topic, name, linger):
    """On trio it would fork in the user's own loop, whose child is the user's."""
    cluster.create_topic(topic, queues=1)
    hook = Forks()

    async def main():
        async with entered(surface.module.Producer("pg", namesrv=namesrv, linger=linger, **{name: hook})) as producer:
            for number in range(5):
                await call(producer.send(Message(topic, b"%d" % number)))

    surface.run(main)
    assert hook.status() == 0
    assert sorted(each.body for each in cluster.messages(topic)) == [b"%d" % number for number in range(5)]


def test_threat_L12_a_function_of_a_producer_that_forks_in_a_thread(surface, cluster, namesrv, topic):
    cluster.create_topic(topic, queues=1)
    executor, told = Forks(LocalTransactionState.COMMIT), Forks()
    settings = {"on_statistics": told, "statistics_interval": 0.02, "checker": lambda message: None}

    async def main():
        producer = surface.module.TransactionProducer("pg", namesrv=namesrv, **settings)
        async with entered(producer):
            if surface.name != "blocking":  # there it runs in the thread of the caller, whose child is the caller's
                sent = await call(producer.send_in_transaction(Message(topic, b"x"), executor))
                assert sent.local_state is LocalTransactionState.COMMIT
            until = time.monotonic() + LIMIT
            while not told.children and time.monotonic() < until:
                await call(producer.send(Message(topic, b"y")))

    surface.run(main)
    assert told.status() == 0
    if surface.name != "blocking":
        assert executor.status() == 0
        assert [each.body for each in cluster.messages(topic)].count(b"x") == 1
