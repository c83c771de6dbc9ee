"""What Apache's brokers and clients asked Apache's name servers is asked of ours, and the answers are compared.

Codes, typed headers and the meaning of bodies must be the same. Captures keep only some frames of a kind: what came in
a registration that was not kept is registered first, and an answer whose request was not kept cannot be asked for.
"""

from __future__ import annotations

import attrs
import pytest

from rocketpy.wire.bodies.registration import RegisterBrokerBody, TopicConfigAndMappingSerializeWrapper
from rocketpy.wire.bodies.topics import DataVersion, TopicConfig
from rocketpy.wire.codes import ONEWAY_FLAG, RequestCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.lenient_json import parse_json
from rocketpy.wire.serialize import decode_command
from tests.broker_sim.namesrv.test_server import running
from tests.wire.golden import FILES, header_classes, load

RAW = "5.3.3-extra/raw_namesrv.jsonl"
BROKERS = [file for file in FILES if file.endswith("/broker_namesrv.jsonl")]

# Queues of topics that came in registrations which were not kept.
UNKEPT = {
    "5.3.3-json/broker_namesrv.jsonl": {"%RETRY%CG_POP": 1, "GT_POP": 2},
    "5.3.3-rocketmq/broker_namesrv.jsonl": {"%RETRY%CG_POP": 1, "GT_POP": 2},
    RAW: {"GT_RR": 1, "%RETRY%CG_X": 1},
}

# What differs between Apache's answers and ours, and why.
DIFFERENCES = {
    "opaque": "the client chooses it",
    "remark": "texts for people; ours says what to do next, and leaves it out where Apache's sends a placeholder",
    "language": "each says what it is written in",
    "serialize_type": "5.3.3 answers in its own, ours in that of the request, as 4.9.7 does",
    "version": "each says its own; ours says 5.3.3 also where 4.9.7 answered",
}


FIELDS = [each.name for each in attrs.fields(RemotingCommand)]


def meaning(request_code, answer):
    """An answer by its parts: the header as typed fields, the body with lists that are sets in one order."""
    parts = {name: getattr(answer, name) for name in FIELDS if name not in DIFFERENCES}
    kind = header_classes().get((request_code, True))
    if kind is not None and answer.code == 0:
        parts["ext_fields"] = kind.from_ext(answer.ext_fields)
    parts["body"] = in_order(parse_json(answer.body)) if answer.body else None
    return parts


def in_order(value):
    if isinstance(value, dict):
        return {str(key): in_order(each) for key, each in value.items()}
    if isinstance(value, list):
        return sorted((in_order(each) for each in value), key=repr)
    return value


def registrations(file):
    return [decode_command(g.frame()) for g in load(file) if g.record["code"] == RequestCode.REGISTER_BROKER]


def registration_of(fields, queues, version):
    """A registration by the broker that these header fields name."""
    configs = {name: TopicConfig(topic_name=name, read_queue_nums=n, write_queue_nums=n) for name, n in queues.items()}
    wrapper = TopicConfigAndMappingSerializeWrapper(topic_config_table=configs, data_version=version)
    body = RegisterBrokerBody(topic_config_serialize_wrapper=wrapper).encode()
    return RemotingCommand(RequestCode.REGISTER_BROKER, fields | {"bodyCrc32": "0"}, body)


async def replay(peer, file, *, extra=()):
    """Ask everything again, and `extra` after the first registration. Returns how many answers were compared."""
    answers, compared = {}, 0
    for golden in load(file):
        key = golden.record["conn"], golden.record["opaque"]
        if not key[0].endswith(">namesrv"):
            continue
        if golden.is_answer:
            if key in answers:
                theirs = decode_command(golden.frame())
                assert meaning(golden.request_code, answers[key]) == meaning(golden.request_code, theirs), golden
                compared += 1
            continue
        command = decode_command(golden.frame())
        # One that wants no answer is asked for one all the same: then it has taken effect before the next.
        command.flag &= ~ONEWAY_FLAG
        answers[key] = await peer.ask(command)
        if command.code == RequestCode.REGISTER_BROKER:
            for more in extra:
                assert (await peer.ask(more)).code == 0
            extra = ()
    return compared


@pytest.mark.parametrize("file", BROKERS)
async def test_what_brokers_asked_is_answered_as_apache_did(autojump_clock, file):
    queues = UNKEPT.get(file, {})
    kept = registrations(file)
    extra = [registration_of(kept[0].ext_fields, queues, DataVersion(timestamp=1, counter=1))] if queues else ()
    async with running() as peer:
        assert await replay(peer, file, extra=extra) >= 2


async def test_what_was_asked_by_hand_is_answered_as_apache_did(autojump_clock):
    """These questions were asked in the middle of the conversation with a master and its slave."""
    master, *changes = registrations("5.3.3-extra/broker_namesrv.jsonl")
    last = registration_of(master.ext_fields, UNKEPT[RAW], DataVersion(timestamp=1795249667537, counter=4))
    slave = registration_of(
        master.ext_fields | {"brokerId": "1", "brokerAddr": "127.0.0.1:29060"},
        UNKEPT[RAW],
        DataVersion(timestamp=1, counter=1),
    )
    async with running() as peer:
        for command in (master, *changes, last, slave):
            assert (await peer.ask(command)).code == 0
        assert await replay(peer, RAW) == 19
        everything = await peer.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        assert "GT_REG" in parse_json(everything.body)["topicList"]
