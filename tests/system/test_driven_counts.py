"""What counts as consumed: all that listeners take of their lists, but nothing that an administrator has consumed."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy.message import MessageExt
from rocketpy.wire.enums import CMResult
from tests.system.test_driven import scene


async def test_what_batch_listeners_take_is_in_the_consumed_rate(autojump_clock: MockClock) -> None:
    async with scene(messages=12, listener=len, consume_message_batch_max_size=4) as s:
        counts = s.consumer.statistics()
        assert counts.consumed == 12
        assert counts.topics["Orders"].consumed_per_second > 0
        assert (await s.info()).status_table["Orders"].consume_ok_tps > 0


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
@pytest.mark.parametrize("kind", ["plain", "async"])
@pytest.mark.parametrize("fails", [False, True], ids=["succeeds", "fails"])
async def test_PC7_a_message_that_is_consumed_directly_is_not_counted(
    autojump_clock: MockClock, orderly: bool, kind: str, fails: bool
) -> None:
    seen: list[MessageExt] = []

    def plain(message: MessageExt) -> None:
        seen.append(message)
        if fails and len(seen) > 4:
            raise ValueError("only this time")

    async def waiting(message: MessageExt) -> None:
        plain(message)

    listener: Any = plain if kind == "plain" else waiting
    async with scene(messages=4, listener=listener, orderly=orderly) as s:
        before = s.consumer.statistics()
        told = await s.directly(seen[0])
        assert told.consume_result is (CMResult.CR_THROW_EXCEPTION if fails else CMResult.CR_SUCCESS)
        await trio.sleep(1)
        after = s.consumer.statistics()
        assert (after.consumed, after.failed) == (before.consumed, before.failed) == (4, 0)


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
async def test_PC7_a_message_that_is_consumed_directly_for_too_long_does_not_come_again(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, orderly: bool
) -> None:
    seen: list[MessageExt] = []

    async def listener(message: MessageExt) -> None:
        seen.append(message)
        if len(seen) > 4:
            await trio.sleep(90)

    async with scene(messages=4, listener=listener, orderly=orderly, consume_timeout=60.0) as s:
        with pytest.raises(AssertionError, match="no answer within 10 s"):  # the call goes on nevertheless
            await s.directly(seen[0])
        await trio.sleep(120)
        counts = s.consumer.statistics()
        assert (counts.consumed, counts.failed, counts.timed_out, counts.sent_back) == (4, 0, 0, 0)
        assert "which an administrator has had consumed, for 60 seconds" in caplog.text
        assert "comes again later" not in caplog.text
        assert "nothing else of" not in caplog.text
        assert len(seen) == 5
