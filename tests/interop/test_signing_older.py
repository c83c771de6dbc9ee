"""Our clients on a broker of the 4.x line that has a list of accounts: who signs well may do what the list says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

import rocketpy
import rocketpy.sync
from rocketpy import BrokerError, ConsumeFromWhere, Message
from rocketpy.wire.catalogue.bodies.plain_access import GetBrokerClusterAclConfigResponseBody
from rocketpy.wire.catalogue.headers.plain_access import (
    CreateAccessConfigRequestHeader,
    DeleteAccessConfigRequestHeader,
    GetBrokerAclConfigResponseHeader,
    UpdateGlobalWhiteAddrsConfigRequestHeader,
)
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.command import RemotingCommand
from tests.interop import probe
from tests.interop.inbox import Inbox

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rocketpy.remoting.connection import Connection
    from tests.interop.apache import Apache

pytestmark = [pytest.mark.interop, pytest.mark.one_line("4.9.7", "5.x has users instead, which test_signing tries")]

TOPIC, GROUP = "Signed-older", "signed-older"
ADMIN = {"access_key": "administrator", "secret_key": "s3same, öffne dich"}
USER = {"access_key": "somebody", "secret_key": "12345678"}
ACCOUNTS = f"""\
accounts:
- accessKey: {ADMIN["access_key"]}
  secretKey: "{ADMIN["secret_key"]}"
  admin: true
- accessKey: {USER["access_key"]}
  secretKey: "{USER["secret_key"]}"
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
  topicPerms:
  - {TOPIC}=PUB|SUB
  groupPerms:
  - {GROUP}=SUB
"""


@pytest.fixture(scope="module")
def namesrv(apache: Apache, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A name server with a broker that looks into its list."""
    home: Path = tmp_path_factory.mktemp("accounts")
    (home / "conf").mkdir()
    (home / "conf" / "plain_acl.yml").write_text(ACCOUNTS, encoding="utf-8")
    with (
        apache.name_server() as name_server,
        apache.broker(name_server.address, home=home, overrides={"aclEnable": True}) as broker,
    ):
        with rocketpy.sync.Producer("makers", namesrv=name_server.address, **ADMIN) as producer:
            for topic in (TOPIC, "Forbidden"):
                producer.create_topic(topic, queues=2)
        yield name_server.address
        broker.process.kill()


@pytest.mark.parametrize("form", ["JSON", "ROCKETMQ"])
def test_who_signs_well_sends_and_consumes(namesrv: str, form: str) -> None:
    inbox = Inbox()
    settings = {"namesrv": namesrv, "serialize_type": form, **USER}
    consumer = rocketpy.sync.PushConsumer(
        GROUP, consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, **settings
    )
    consumer.subscribe(TOPIC, inbox.take, tags=form)
    with consumer, rocketpy.sync.Producer("signers", **settings) as producer:
        sent = [producer.send(Message(TOPIC, f"größe {n}".encode(), tags=form)) for n in range(4)]
        sent.append(producer.send_batch([Message(TOPIC, b"batch", tags=form, keys="ключ")]))
        messages = inbox.wait_here(5)
    assert {message.message_id for message in messages} == {each.message_id for each in sent}


@pytest.mark.parametrize(
    ("keys", "topic", "says"),
    [
        (USER, "Forbidden", "(?i)permission"),
        ({**USER, "secret_key": "87654321"}, TOPIC, "[Ss]ignature"),
        ({"access_key": "stranger", "secret_key": "12345678"}, TOPIC, "stranger"),
        ({}, TOPIC, "accessKey"),
    ],
    ids=["another topic", "wrong secret", "stranger", "unsigned"],
)
def test_who_may_not_is_told_so(namesrv: str, keys: dict[str, str], topic: str, says: str) -> None:
    with rocketpy.sync.Producer("signers", namesrv=namesrv, retry_times_when_send_failed=0, **keys) as producer:
        with pytest.raises(BrokerError, match=says):
            producer.send(Message(topic, b"x"))


# --- the list itself, in our declarations ---------------------------------------------------------------


async def call(connection: Connection, code: int, fields: dict[str, str] | None = None) -> RemotingCommand:
    answer = await connection.request(RemotingCommand(code, fields or {}), timeout=10)
    assert answer.code == 0, answer.remark
    return answer


async def listed(connection: Connection) -> GetBrokerClusterAclConfigResponseBody:
    answer = await call(connection, RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG)
    return GetBrokerClusterAclConfigResponseBody.decode(answer.body)


async def test_accounts_are_made_listed_and_deleted(namesrv: str) -> None:
    address = await trio.to_thread.run_sync(lambda: probe.broker_addresses(namesrv)["broker-a"]["0"])
    async with rocketpy.Producer("managers", namesrv=namesrv, **ADMIN) as producer:
        connection = await producer.client.pool.get(address, timeout=10)
        header = CreateAccessConfigRequestHeader(
            access_key="ali-the-user",
            secret_key="alis-secret",
            default_topic_perm="DENY",
            default_group_perm="SUB",
            topic_perms="Orders=PUB|SUB,Audit=SUB",
        )
        await call(connection, RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, header.to_ext())
        white = UpdateGlobalWhiteAddrsConfigRequestHeader(global_white_addrs="10.9.8.7")
        await call(connection, RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, white.to_ext())

        found = await listed(connection)
        assert found.global_white_addrs == ["10.9.8.7"]
        accounts = {each.access_key: each for each in found.plain_access_configs or ()}
        assert accounts.keys() == {ADMIN["access_key"], USER["access_key"], "ali-the-user"}
        ali = accounts["ali-the-user"]
        assert (ali.default_topic_perm, ali.default_group_perm, ali.admin) == ("DENY", "SUB", False)
        assert set(ali.topic_perms or ()) == {"Orders=PUB|SUB", "Audit=SUB"}

        answer = await call(connection, RequestCode.GET_BROKER_CLUSTER_ACL_INFO)
        version = GetBrokerAclConfigResponseHeader.from_ext(answer.ext_fields)
        assert version.to_ext() == answer.ext_fields
        assert (version.broker_name, version.broker_addr) == ("broker-a", address)

        gone = DeleteAccessConfigRequestHeader(access_key="ali-the-user")
        await call(connection, RequestCode.DELETE_ACL_CONFIG, gone.to_ext())
        left = {each.access_key for each in (await listed(connection)).plain_access_configs or ()}
        assert left == {ADMIN["access_key"], USER["access_key"]}
