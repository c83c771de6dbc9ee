"""The way from new to closed, and what may not cross a fork or a pickle."""

from __future__ import annotations

import copy
import os
import pickle

import pytest
import trio

from rocketpy.client.lifecycle import Lifecycle, NotPicklable, State, forks
from rocketpy.errors import ClientClosedError, ConfigError


def opened() -> Lifecycle:
    life = Lifecycle("producer orders")
    life.begin()
    life.opened()
    return life


async def test_open_may_be_used_and_nothing_else_may() -> None:
    life = Lifecycle("producer orders")
    with pytest.raises(ClientClosedError, match=r"producer orders is not started: .*async with"):
        life.check_open()
    life.begin()
    with pytest.raises(ClientClosedError, match="starting"):
        life.check_open()
    life.opened()
    life.check_open()
    assert life.is_open
    assert life.closing()
    with pytest.raises(ClientClosedError, match="closing"):
        life.check_open()
    life.closed()
    with pytest.raises(ClientClosedError, match="make a new one"):
        life.check_open()


async def test_LC2_a_second_start_is_refused() -> None:
    life = opened()
    with pytest.raises(ClientClosedError, match="was started already"):
        life.begin()
    life.check_open()
    life.closing()
    life.closed()
    with pytest.raises(ClientClosedError, match="cannot be started again"):
        life.begin()


async def test_a_failed_start_may_be_tried_again() -> None:
    life = Lifecycle("x")
    life.begin()
    life.failed()
    assert life.state is State.NEW
    life.begin()


async def test_closing_twice_closes_once() -> None:
    life = opened()
    assert life.closing()
    assert not life.closing()
    life.closed()
    assert not life.closing()
    assert not Lifecycle("x").closing()


async def opened_in_a_loop_of_its_own() -> Lifecycle:
    return opened()


def test_threat_L12_use_after_a_fork_is_refused_with_the_remedy() -> None:
    life = trio.run(opened_in_a_loop_of_its_own)
    reader, writer = os.pipe()
    before = forks()
    child = os.fork()
    if child == 0:
        said = "nothing was raised"
        try:
            life.check_open()
        except ClientClosedError as error:
            said = str(error)
        finally:
            os.write(writer, f"{life.is_open} {forks() - before} {said}".encode())
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    told = os.read(reader, 4096).decode()
    os.close(reader)
    assert told.startswith("False 1 producer orders was made in process")
    assert "make a new one in the child from the same config" in told
    life.check_open()
    assert forks() == before


async def test_another_trio_loop_may_not_use_it() -> None:
    life = opened()
    life.check_here()

    async def elsewhere() -> None:
        life.check_open()
        with pytest.raises(ConfigError, match=r"producer orders belongs to the trio loop .*from_thread"):
            life.check_here()

    await trio.to_thread.run_sync(trio.run, elsewhere)
    with pytest.raises(ClientClosedError):
        Lifecycle("x").check_here()


def test_without_a_trio_loop_nothing_opens_and_it_may_be_tried_again() -> None:
    life = Lifecycle("producer orders")
    with pytest.raises(ConfigError, match=r"producer orders runs on trio, .*rocketpy\.aio .*rocketpy\.sync"):
        life.begin()
    assert life.state is State.NEW


class Holder(NotPicklable):
    """Something that holds sockets."""


@pytest.mark.parametrize("attempt", [pickle.dumps, copy.copy, copy.deepcopy])
def test_threat_L12_live_objects_refuse_to_be_pickled_or_copied(attempt: object) -> None:
    with pytest.raises(TypeError, match="send its config"):
        attempt(Holder())
