"""What cannot be right is refused when it is given, in the same words on every surface."""

from __future__ import annotations

import pytest

from rocketpy import LocalTransactionState, Message
from rocketpy.errors import ConfigError
from tests.surfaces.surface import SURFACES, call, entered

COMMIT = LocalTransactionState.COMMIT


@pytest.mark.parametrize("role", ["Producer", "PushConsumer"])
@pytest.mark.parametrize("name", SURFACES)
def test_what_is_no_client_cannot_be_shared(name: str, role: str) -> None:
    module = SURFACES[name].module
    with pytest.raises(ConfigError, match=rf"client must be a {module.__name__}\.MQClientInstance, not 'mine'"):
        getattr(module, role)("group", namesrv="127.0.0.1:9876", client="mine")


@pytest.mark.slow
@pytest.mark.waits("for brokers")
@pytest.mark.parametrize("timeout", [float("inf"), 1e300, 10**30])
def test_a_timeout_may_be_as_long_as_one_likes(surface, namesrv, topic, timeout):
    async def main():
        module = surface.module
        async with (
            entered(module.Producer("p", namesrv=namesrv)) as producer,
            entered(module.Producer("l", namesrv=namesrv, linger=0.01)) as lingering,
        ):
            for _ in range(60):  # the first ones go another way than the others
                # In threads, a send that is not alone waits in another way.
                soon = []
                if hasattr(producer, "send_soon"):
                    soon = [producer.send_soon(Message(topic, b"x"), timeout=timeout) for _ in range(3)]
                await call(producer.send(Message(topic, b"x"), timeout=timeout))
                await call(producer.send(Message(topic, b"x", sharding_key="k"), timeout=timeout))
                await call(producer.send_batch([Message(topic, b"x")] * 2, timeout=timeout))
                assert all(future.result(10) for future in soon)
            await call(lingering.send(Message(topic, b"x"), timeout=timeout))
            later = await call(producer.send(Message(topic, b"x", delay=60), timeout=timeout))
            assert await call(producer.recall(topic, later.recall_handle, timeout=timeout)) == later.message_id
            assert (await call(producer.send_many([Message(topic, b"x")] * 3, timeout=timeout))).messages == 3

    surface.run(main)


@pytest.mark.parametrize(
    ("timeout", "says"),
    [
        (3000, "at most 600 seconds, or math.inf .* not 3000; it counts in seconds, not in milliseconds"),
        (600.001, "not 600.001; it counts in seconds"),
        (True, "seconds or a timedelta, more than 0, not True"),
        (float("nan"), "seconds or a timedelta, more than 0, not nan"),
        ("3", "seconds or a timedelta, more than 0, not '3'"),
    ],
)
def test_a_timeout_in_milliseconds_is_refused_by_every_call_of_a_producer(surface, namesrv, topic, timeout, says):
    async def main():
        module, message = surface.module, Message(topic, b"x")
        async with (
            entered(module.TransactionProducer("p", namesrv=namesrv, checker=print)) as producer,
            entered(module.Producer("l", namesrv=namesrv, linger=0.01)) as lingering,
        ):
            calls = [
                lambda: producer.send(message, timeout=timeout),
                lambda: producer.send(message, selector=print, timeout=timeout),
                lambda: producer.send_batch([message], timeout=timeout),
                lambda: producer.send_many([message], timeout=timeout),
                lambda: producer.send_in_transaction(message, print, timeout=timeout),
                lambda: producer.request(message, timeout=timeout),
                lambda: producer.recall(topic, "handle", timeout=timeout),
                lambda: producer.queues(topic, timeout=timeout),
                lambda: producer.create_topic(topic, timeout=timeout),
                lambda: lingering.send(message, timeout=timeout),
            ]
            if surface.name == "blocking":
                calls += [
                    lambda: producer.send_soon(message, timeout=timeout),
                    lambda: producer.request_soon(message, timeout=timeout),
                    lambda: lingering.send_soon(message, timeout=timeout),
                ]
            for each in calls:
                with pytest.raises(ConfigError, match=f"^timeout must be .*{says}"):
                    await call(each())

    surface.run(main)


def test_a_timeout_may_be_as_long_as_the_setting(surface, namesrv, topic):
    async def main():
        async with entered(surface.module.Producer("p", namesrv=namesrv)) as producer:
            assert await call(producer.send(Message(topic, b"x"), timeout=600))

    surface.run(main)


def test_an_argument_for_no_selector_is_refused(surface, namesrv, topic):
    async def main():
        module, message = surface.module, Message(topic, b"x")
        async with (
            entered(module.TransactionProducer("p", namesrv=namesrv, checker=print)) as producer,
            entered(module.Producer("l", namesrv=namesrv, linger=0.01)) as lingering,
        ):
            calls = [producer.send, producer.send_oneway, producer.request, lingering.send]
            if surface.name == "blocking":
                calls += [producer.send_soon, producer.request_soon, lingering.send_soon]
            for each in calls:
                with pytest.raises(
                    ConfigError, match=r"^arg is passed to a selector, and there is no selector: pass selector="
                ):
                    await call(each(message, arg=0))
            # The executor gets it as well.
            sent = await call(producer.send_in_transaction(message, lambda message, arg: arg, COMMIT))
            assert sent.local_state is COMMIT

    surface.run(main)


def test_a_request_that_is_delayed_is_refused_before_it_is_sent(surface, namesrv, topic):
    async def main():
        async with entered(surface.module.Producer("p", namesrv=namesrv)) as producer:
            for delay in ({"delay": 1}, {"delay_level": 1}, {"deliver_at": 4_102_444_800_000}):
                with pytest.raises(ConfigError, match=r"^a request cannot be delayed"):
                    await call(producer.request(Message(topic, b"x", **delay)))
            assert producer.statistics().sent == 0

    surface.run(main)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"transactionListener": print}, "arguments of TransactionProducer, not settings: checker and executor"),
        ({"transaction_listener": print}, "checker and executor"),
        ({"send_timeuot": 3}, "did you mean send_timeout"),
        ({"transaction_listener": print, "checker": print}, "checker and executor"),
    ],
)
@pytest.mark.parametrize("name", SURFACES)
def test_what_stands_for_a_transaction_listener_is_said(name, arguments, says):
    with pytest.raises(ConfigError, match=f"has no setting .*{says}"):
        SURFACES[name].module.TransactionProducer("group", namesrv="127.0.0.1:9876", **arguments)


@pytest.mark.parametrize("name", SURFACES)
def test_a_missing_checker_is_an_error_of_type(name):
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'checker'"):
        SURFACES[name].module.TransactionProducer("group", namesrv="127.0.0.1:9876", executor=print)
