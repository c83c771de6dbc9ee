"""What is said about slaves, controllers, users and RocksDB, none of which this broker has."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from rocketpy.wire.bodies.consume_queue import CheckRocksdbCqWriteResult
from rocketpy.wire.bodies.replication import HARuntimeInfo
from rocketpy.wire.codes import RequestCode, ResponseCode
from tests.broker_sim.broker.kit import broker_and_client


async def test_A8_a_master_without_slaves_says_so(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        await client.send()
        answer = await client.ask(RequestCode.GET_BROKER_HA_STATUS)
        found = HARuntimeInfo.decode(answer.body)
        assert found == HARuntimeInfo(master=True, master_commit_log_max_offset=broker.store.written_position)
        assert (await client.ask(RequestCode.RESET_MASTER_FLUSH_OFFSET, {"masterFlushOffset": "0"})).code == 0
        assert broker.store.written_position > 0


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.GET_BROKER_EPOCH_CACHE,
        *[RequestCode(number) for number in range(RequestCode.AUTH_CREATE_USER, RequestCode.AUTH_LIST_ACL + 1)],
    ],
)
async def test_A8_controllers_and_users_are_refused(autojump_clock: MockClock, code: RequestCode) -> None:
    async with broker_and_client() as (_, client):
        answer = await client.ask(code, {"username": "x", "subject": "User:x"}, b'{"username":"x"}')
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark


async def test_A8_there_is_nothing_to_check_or_to_export_of_rocksdb(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        answer = await client.ask(RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, {"topic": "T", "checkStoreTime": "0"})
        assert CheckRocksdbCqWriteResult.decode(answer.body).check_status == 3
        answer = await client.ask(RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON, {"configType": "topics"})
        assert (answer.code, answer.remark) == (0, "export done.")


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC,
        RequestCode.CONTROLLER_ELECT_MASTER,
        RequestCode.CONTROLLER_GET_METADATA_INFO,
        RequestCode.UPDATE_CONTROLLER_CONFIG,
        RequestCode.CLEAN_BROKER_DATA,
        RequestCode.ADD_BROKER,
        RequestCode.REMOVE_BROKER,
        RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG,
        RequestCode.GET_COLD_DATA_FLOW_CTR_INFO,
        RequestCode.SET_COMMITLOG_READ_MODE,
        RequestCode.UPDATE_AND_CREATE_ACL_CONFIG,
        RequestCode.POP_ROLLBACK,
    ],
)
async def test_A8_other_parts_of_apaches_broker_are_not_supported(autojump_clock: MockClock, code: RequestCode) -> None:
    async with broker_and_client() as (_, client):
        answer = await client.ask(code)
        assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
