"""Clusters of all three kinds that are used wrongly: each answer is a ConfigError that says what would be right."""

from __future__ import annotations

import asyncio
import os

import pytest
import trio

from rocketpy import ConfigError, Message
from rocketpy_broker_sim import AsyncioLocalCluster, BlockingLocalCluster, LocalCluster
from tests.forking import in_child
from tests.surfaces.surface import SURFACES, call, entered

CLUSTERS = {"trio": LocalCluster, "blocking": BlockingLocalCluster, "asyncio": AsyncioLocalCluster}
MESSAGE = Message("T", b"x")

OF_A_BROKER = ("stop_broker", "kill_broker", "start_broker", "restart_broker", "cut_connections")
OF_A_NAME_SERVER = ("stop_name_server", "start_name_server", "restart_name_server")
PLACES = [
    (5, "there is no {what} 5: the cluster has 2 {what}s, numbered from 0 to 1"),
    (-1, "there is no {what} -1"),
    ("broker-a", "give the number of the {what}, a whole number, not 'broker-a'"),
    (True, "give the number"),
    (1.0, "give the number"),
]
TIMES = [(0, "at least 1, not 0"), (-1, "at least 1"), ("1", "whole number, not '1'"), (None, "whole"), (1.5, "whole")]
SECONDS = [
    (-1, "must be 0 or more seconds, not -1"),
    ("1", "seconds or a timedelta, not '1'"),
    (None, "seconds"),
    (float("nan"), "nan"),
]
NAMES = [("", "blank"), ("two words", "characters"), (None, "must be a str"), (5, "must be a str"), ("x" * 200, "200")]

MISUSES = [
    *((name, (number,), {}, said.format(what="broker")) for name in OF_A_BROKER for number, said in PLACES),
    *((name, (number,), {}, said.format(what="name server")) for name in OF_A_NAME_SERVER for number, said in PLACES),
    *((name, (value,), {}, said) for name in ("create_topic", "messages", "wait_messages") for value, said in NAMES),
    *((name, (value,), {}, said) for name in ("dead_letters", "queue_locks", "wait_dead_letters")
      for value, said in NAMES),
    *(("wait_consumed", (value, "T"), {}, said) for value, said in NAMES),
    *(("wait_consumed", ("g", value), {}, said) for value, said in NAMES),
    *((name, ("T", value), {}, said) for name in ("wait_messages", "wait_dead_letters") for value, said in TIMES),
    *((name, ("T",), {"timeout": value}, s) for name in ("wait_messages", "wait_dead_letters") for value, s in SECONDS),
    *(("wait_consumed", ("g", "T"), {"timeout": value}, said) for value, said in SECONDS),
    *(("create_topic", ("T",), {"queues": value}, "queues") for value in (0, -1, 2000, "4", None, True)),
    ("create_topic", ("SCHEDULE_TOPIC_XXXX",), {}, "a system topic"),
    *(("send", (value,), {}, "takes a Message") for value in (None, "text", b"bytes", 5)),
    ("send", (Message("SCHEDULE_TOPIC_XXXX", b"x"),), {}, "a system topic"),
    *((name, (value,), {}, said) for name in ("refuse_sends", "lose_answers") for value, said in TIMES),
    *(("delay_sends", (1, value), {}, said) for value, said in TIMES),
    *(("delay_sends", (value,), {}, said) for value, said in SECONDS),
    *(("refuse_sends", (), {"code": value}, "code") for value in (0, -1, "SYSTEM_BUSY", None)),
    *((name, (), {"broker": value}, s.format(what="broker")) for name in ("refuse_sends", "lose_answers")
      for value, s in PLACES),
    *(("delay_sends", (1,), {"broker": value}, said.format(what="broker")) for value, said in PLACES),
]  # fmt: skip

USES = [
    *((name, (0,)) for name in (*OF_A_BROKER, *OF_A_NAME_SERVER)),
    ("create_topic", ("T",)),
    ("send", (MESSAGE,)),
    *((name, ("T",)) for name in ("messages", "dead_letters", "queue_locks", "wait_messages", "wait_dead_letters")),
    ("wait_consumed", ("g", "T")),
    ("refuse_sends", ()),
    ("delay_sends", (1,)),
    ("lose_answers", ()),
    ("cut_connections", ()),
]


@pytest.fixture(params=CLUSTERS)
def kind(request):
    return request.param


async def told(cluster, name, arguments, keywords=None):
    """What a misuse is told; what went wrong where it is not told."""
    try:
        result = await call(getattr(cluster, name)(*arguments, **(keywords or {})))
    except ConfigError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the wrong one
        return f"WRONG: {error!r}"
    return f"WRONG: {result!r} was returned"


def test_every_argument_that_cannot_be_is_told_so(kind):
    async def main():
        async with entered(CLUSTERS[kind](brokers=2, name_servers=2)) as cluster:
            for name, arguments, keywords, said in MISUSES:
                text = await told(cluster, name, arguments, keywords)
                if said not in text:
                    wrong.append((name, arguments, keywords, text))
            assert await call(cluster.send(MESSAGE))

    wrong = []
    SURFACES[kind].run(main)
    assert wrong == []


def test_a_cluster_that_does_not_run_says_so(kind):
    async def main():
        cluster = CLUSTERS[kind]()
        for state in ("never started", "closed"):
            for name, arguments in USES:
                text = await told(cluster, name, arguments)
                if "the cluster is not running: use it inside `with`" not in text:
                    wrong.append((state, name, text))
            if state == "never started":
                async with entered(cluster):
                    await call(cluster.send(MESSAGE))

    wrong = []
    SURFACES[kind].run(main)
    assert wrong == []


def test_what_was_done_already_is_told_so(kind):
    async def main():
        async with entered(CLUSTERS[kind]()) as cluster:
            assert "broker 0 (broker-a) is already running" in await told(cluster, "start_broker", (0,))
            assert "name server 0 is already running" in await told(cluster, "start_name_server", (0,))
            await call(cluster.kill_broker(0))
            for name in ("kill_broker", "stop_broker", "restart_broker", "cut_connections"):
                assert "broker 0 (broker-a) is not running" in await told(cluster, name, (0,))
            await call(cluster.start_broker(0))
            await call(cluster.stop_name_server(0))
            assert "name server 0 is not running" in await told(cluster, "stop_name_server", (0,))
            assert "name server 0 is not running" in await told(cluster, "restart_name_server", (0,))
            await call(cluster.start_name_server(0))
            await call(cluster.send(MESSAGE))
            start = cluster.start if kind == "blocking" else cluster.__aenter__
            with pytest.raises(ConfigError, match="the cluster is already running"):
                await call(start())
            assert len(await call(cluster.messages("T"))) == 1

    SURFACES[kind].run(main)


async def test_a_start_during_a_start_harms_nobody(autojump_clock):
    cluster = LocalCluster(network="memory")
    refused, outcomes = trio.Event(), []

    async def run():
        try:
            async with cluster:
                await refused.wait()
                outcomes.append(await cluster.send(MESSAGE))
        except ConfigError as error:
            outcomes.append(str(error))
            refused.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        nursery.start_soon(run)
    assert outcomes[0] == "the cluster is already running"
    assert len(outcomes[1]) == 32


def test_a_start_that_failed_may_be_tried_again(tmp_path):
    async def main():
        (tmp_path / "broker-a").write_text("in the way")
        cluster = LocalCluster(data=tmp_path)
        with pytest.raises(Exception, match="broker-a"):
            await cluster.__aenter__()
        (tmp_path / "broker-a").unlink()
        async with cluster:
            await cluster.send(MESSAGE)

    trio.run(main)


def test_a_cluster_in_a_loop_of_another_kind_names_the_right_one():
    async def enter(cluster):
        await cluster.__aenter__()

    with pytest.raises(ConfigError, match="use AsyncioLocalCluster in asyncio"):
        asyncio.run(enter(LocalCluster()))
    cluster = AsyncioLocalCluster()
    with pytest.raises(ConfigError, match="use LocalCluster in trio"):
        trio.run(enter, cluster)
    with cluster.blocking, pytest.raises(ConfigError, match="use LocalCluster in trio"):
        trio.run(cluster.send, MESSAGE)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_threat_L12_the_child_of_a_fork_has_no_part_in_the_cluster(tmp_path):
    with BlockingLocalCluster(data=tmp_path) as cluster:
        cluster.send(MESSAGE)

        def use():
            said = set()
            for name, arguments in USES:
                try:
                    getattr(cluster, name)(*arguments)
                except Exception as error:  # noqa: BLE001 - the parent looks at it
                    said.add(f"{type(error).__name__}: {error}".partition(" is its forked child")[0])
            cluster.close()
            with pytest.raises(Exception, match="child"):
                cluster.start()
            return said

        said = in_child(use)
        assert said == f"""{{'ClientClosedError: the cluster runs in process {os.getpid()}, and this'}}"""
        assert (tmp_path / "broker-a" / "abort").exists()
        assert len(cluster.messages("T")) == 1
    assert not (tmp_path / "broker-a" / "abort").exists()
