"""The life of a store goes forward only."""

from __future__ import annotations

import itertools

import pytest

from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.message_store import MessageStore
from rocketpy_broker_sim.store.store_state import Phase, StoreState, StoreStateError
from tests.broker_sim.store.helpers import message, open_store, put_all, small_config
from tests.broker_sim.store.test_faults import REFUSED


@pytest.mark.parametrize(("now", "then"), list(itertools.product(Phase, Phase)))
def test_LC4_only_forward_moves_are_allowed(now, then):
    state = StoreState()
    state.phase = now
    if then > now:
        state.advance(then)
        assert state.phase is then
    else:
        with pytest.raises(StoreStateError, match="cannot become"):
            state.advance(then)
        assert state.phase is now


def test_LC4_a_store_lives_once():
    storage = MemoryStorage()
    store = MessageStore(storage, small_config())
    assert store.state.phase is Phase.CREATED
    assert store.put(message()).status is REFUSED
    store.close()  # there is nothing to close
    assert store.state.phase is Phase.CREATED
    store.load()
    assert store.state.phase is Phase.RUNNING
    with pytest.raises(StoreStateError, match="running cannot become loaded"):
        store.load()
    put_all(store, [message()])
    store.close()
    store.close()
    assert store.state.phase is Phase.SHUT_DOWN
    assert store.put(message()).status is REFUSED
    with pytest.raises(StoreStateError, match="shut down cannot become loaded: make a new one"):
        store.load()
    open_store(storage).close()  # the lock was given back once, and stays so


def test_LC4_a_start_that_fails_ends_the_life():
    storage = MemoryStorage()
    store = MessageStore(storage, small_config())
    with storage.failing("write_bytes_atomic"), pytest.raises(Exception, match="disk is full"):
        store.load()
    assert store.state.phase is Phase.SHUT_DOWN
