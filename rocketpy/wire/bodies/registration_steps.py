"""Reads the body of a registration a few topics at a time, however large: neither long in one turn nor twice in memory.

A broker that does not split its registration sends all topics at once. Of JSON only the outer three levels are walked
here; each topic is cut out and parsed by itself, and what a name server does not use is passed over. The compressed
form is inflated in steps too, and bounded by what it may become.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Generator
from typing import Any

from rocketpy.errors import RemoteProtocolError
from rocketpy.wire.bodies.registration import (
    BODY_SINCE,
    MAPPINGS_SINCE,
    ZLIB_START,
    LengthPrefixed,
    RegisterBrokerBody,
    TopicConfigAndMappingSerializeWrapper,
    text_of,
)
from rocketpy.wire.bodies.topics import DataVersion, TopicConfig, TopicQueueMappingInfo
from rocketpy.wire.lenient_json import parse_json
from rocketpy.wire.limits import DEFAULT_LIMITS, WireLimits

__all__ = ["MOST_INFLATED", "decode_steps", "most_topics"]

_ROOM = 13 * 1024 * 1024
_TIMES = 3
_BYTES_A_TOPIC = 640
MOST_INFLATED = 16 * 1024 * 1024
"""Bytes of the compressed form when it is inflated; and it may become no more than a hundred times as large."""
_AT_ONCE = 16 * 1024
"""Bytes of JSON that are read in one step: some milliseconds."""
_MOST_OF_ONE = 64 * 1024
"""Characters of the settings of one topic, or of any other part that is parsed at once."""
_MOST_OF_DIALECT = 1024 * 1024
"""Bytes that are read as fastjson reads them, which takes a hundred times as long."""
_TOPICS_A_STEP = 32
_TOKENS_A_STEP = 1000
_MOST_TOKENS = 1_000_000
"""Tokens that are passed over."""
_ROOM_TO_INFLATE = 64 * 1024
_RATIO = 100
_INFLATED_A_STEP = 256 * 1024

Steps = Generator[None, None, None]


def most_topics(size: int) -> int:
    """How many topics a registration of so many bytes may hold.

    What is made of them, the table of the name server included, takes no more than four times its bytes and 16 MiB:
    some 60,000 topics as brokers write them, or 20,000 in the compressed form.
    """
    return (_ROOM + _TIMES * size) // _BYTES_A_TOPIC


def _check_count(count: int, most: int) -> None:
    if count > most:
        raise RemoteProtocolError(
            f"RegisterBrokerBody: more than {most} topics in a registration of this size: "
            "set enableSplitRegistration at the broker"
        )


def decode_steps(
    data: bytes, *, version: int, compressed: bool = False, limits: WireLimits = DEFAULT_LIMITS
) -> Generator[None, None, RegisterBrokerBody]:
    """Read the body of a registration in any of its forms, as `RegisterBrokerBody.decode_any` does, in steps.

    Attributes of topics, and the details of static ones, are left out.

    Args:
        data: the body; an empty one registers no topics.
        version: the version in the frame of the sender.
        compressed: what the header says.
        limits: bounds of what is parsed at once.

    Raises:
        RemoteProtocolError: it is none of the forms, or over a bound.
    """
    is_json = version < BODY_SINCE or (not compressed and data[:1] != bytes([ZLIB_START]))
    if not data or (is_json and len(data) <= _AT_ONCE):
        return RegisterBrokerBody.decode_any(data, version=version, compressed=compressed, limits=limits)
    if not is_json:
        inflated = yield from _inflate(data)
        return (yield from _Parts(inflated, most_topics(len(data)), _MOST_OF_ONE).read(version >= MAPPINGS_SINCE))
    walker = _Walker(text_of(data), limits)
    yield
    try:
        found = yield from walker.wrapper_alone() if version < BODY_SINCE else walker.body()
    except _Dialect as exc:
        # fastjson's dialect, which brokers of Apache do not use here but for static topics.
        if len(data) > _MOST_OF_DIALECT:
            raise RemoteProtocolError(f"RegisterBrokerBody: {exc}, and too long to be read in another way") from exc
        if version < BODY_SINCE:
            wrapper = yield from TopicConfigAndMappingSerializeWrapper.decode_steps(data)
            return RegisterBrokerBody(topic_config_serialize_wrapper=wrapper)
        return (yield from RegisterBrokerBody.decode_steps(data))
    return found


# --- JSON ------------------------------------------------------------------------------------------------

_SPACE = re.compile(r"[ \t\r\n]*+")
_KEY = re.compile(r'[ \t\r\n]*+"((?:[^"\\]++|\\.)*+)"[ \t\r\n]*+:[ \t\r\n]*+', re.DOTALL)
_NEXT = re.compile(r"[ \t\r\n]*+([,}])")
_TOKEN = re.compile(r'[ \t\r\n]*+("(?:[^"\\]++|\\.)*+"|[{}\[\]:,]|[^\s"{}\[\]:,]++)', re.DOTALL)
_FLAT = r'(?:[^{}"]++|"(?:[^"\\]++|\\.)*+")'
_OBJECT = re.compile(r"\{(?:" + _FLAT + r"|\{" + _FLAT + r"*+\})*+\}", re.DOTALL)
"""An object with objects in it that hold none themselves, as topics have their attributes."""


class _Dialect(Exception):
    """The text is not the JSON that the walker knows."""


class _Walker:
    """Walks over the objects that hold the topics. Positions are kept here; the parts are parsed as they are met."""

    def __init__(self, text: str, limits: WireLimits) -> None:
        self.text = text
        self.limits = limits
        self.most = most_topics(len(text))
        self.position = 0
        self.tokens_left = _MOST_TOKENS
        self.wrapper = TopicConfigAndMappingSerializeWrapper()
        self.filter_servers: list[str] = []

    def body(self) -> Generator[None, None, RegisterBrokerBody]:
        """The whole body."""
        yield from self.members({"topicConfigSerializeWrapper": self.wrapper_members, "filterServerList": self.servers})
        self.end()
        return RegisterBrokerBody(topic_config_serialize_wrapper=self.wrapper, filter_server_list=self.filter_servers)

    def wrapper_alone(self) -> Generator[None, None, RegisterBrokerBody]:
        """The form of the oldest brokers: the topics and nothing around them."""
        yield from self.wrapper_members()
        self.end()
        return RegisterBrokerBody(topic_config_serialize_wrapper=self.wrapper)

    def wrapper_members(self) -> Steps:
        """The topics and their version."""
        yield from self.members(
            {
                "topicConfigTable": self.topics,
                "topicQueueMappingInfoMap": self.mappings,
                "dataVersion": self.version,
                "mappingDataVersion": self.mapping_version,
            }
        )

    def members(self, readers: dict[str, Any]) -> Steps:
        """The members of an object; those without a reader are passed over."""
        if not self.opens():
            return
        while True:
            key = self.key()
            reader = readers.get(key)
            yield from reader() if reader is not None else self.skip()
            if not self.goes_on():
                return

    def topics(self) -> Steps:
        """The table of topics."""
        yield from self.entries(self.topic)

    def mappings(self) -> Steps:
        """The table of static topics."""
        yield from self.entries(self.mapping)

    def entries(self, take: Any) -> Steps:
        """A table whose values are parsed one by one."""
        if not self.opens():
            return
        count = 0
        while True:
            key = self.key()
            value = self.object()
            if value is not None:
                take(key, value)
            count += 1
            _check_count(count, self.most)
            if count % _TOPICS_A_STEP == 0:
                yield
            if not self.goes_on():
                return

    def topic(self, key: str, value: dict[str, Any]) -> None:
        """One topic."""
        value.pop("attributes", None)
        self.wrapper.topic_config_table[key] = _plain_topic(value) or TopicConfig.from_json(value)

    def mapping(self, key: str, value: dict[str, Any]) -> None:
        """One static topic."""
        self.wrapper.topic_queue_mapping_info_map[key] = TopicQueueMappingInfo.from_json(value)

    def version(self) -> Steps:
        """The state of the table."""
        value = self.object()
        if value is not None:
            self.wrapper.data_version = DataVersion.from_json(value)
        yield

    def mapping_version(self) -> Steps:
        """The state of the table of static topics."""
        value = self.object()
        if value is not None:
            self.wrapper.mapping_data_version = DataVersion.from_json(value)
        yield

    def servers(self) -> Steps:
        """The filter servers; only the first of them when there are many. No broker has had any since 4.9."""
        begin = self.position
        yield from self.skip()
        part = self.text[begin : self.position]
        if len(part) > _MOST_OF_ONE:
            part = part[: part.rfind('",', 0, _MOST_OF_ONE) + 1] + "]"  # the first ones will do
        value = {"filterServerList": parse_json(part, max_depth=2, max_members=_MOST_OF_ONE)}
        self.filter_servers = RegisterBrokerBody.from_json(value).filter_server_list

    # --- steps over the text ---

    def opens(self) -> bool:
        """Step into an object; whether it holds anything. For null too there is nothing to read."""
        position = _SPACE.match(self.text, self.position).end()  # type: ignore[union-attr]
        if self.text.startswith("null", position):
            self.position = position + 4
            return False
        if self.text[position : position + 1] != "{":
            raise _Dialect(f"no object at character {position}")
        position = _SPACE.match(self.text, position + 1).end()  # type: ignore[union-attr]
        if self.text[position : position + 1] == "}":
            self.position = position + 1
            return False
        self.position = position
        return True

    def key(self) -> str:
        """A key and its colon."""
        match = _KEY.match(self.text, self.position, self.position + _MOST_OF_ONE)
        if match is None:
            raise _Dialect(f"no key at character {self.position}")
        self.position = match.end()
        found: str = match.group(1)
        return str(parse_json(f'"{found}"')) if "\\" in found else found

    def object(self) -> dict[str, Any] | None:
        """An object that is parsed at once; None for null."""
        if self.text.startswith("null", self.position):
            self.position += 4
            return None
        match = _OBJECT.match(self.text, self.position, self.position + _MOST_OF_ONE)
        if match is None:
            raise _Dialect(f"no object of up to {_MOST_OF_ONE} characters at character {self.position}")
        self.position = match.end()
        value = parse_json(match.group(), max_depth=4, max_members=4096)
        if not isinstance(value, dict):
            raise _Dialect(f"no object at character {match.start()}")
        return value

    def goes_on(self) -> bool:
        """Step over what follows a value; whether another one comes."""
        match = _NEXT.match(self.text, self.position)
        if match is None:
            raise _Dialect(f"neither a comma nor the end at character {self.position}")
        self.position = match.end()
        return match.group(1) == ","

    def skip(self) -> Steps:
        """Pass over a value of any kind."""
        depth = count = 0
        while True:
            match = _TOKEN.match(self.text, self.position)
            if match is None:
                raise _Dialect(f"no value at character {self.position}")
            self.position = match.end()
            token = match.group(1)
            if token in "{[":
                depth += 1
            elif token in "}]":
                depth -= 1
            self.tokens_left -= 1
            if self.tokens_left < 0 or depth > self.limits.max_body_depth:
                raise RemoteProtocolError("RegisterBrokerBody: too much in it besides topics, or nested too deep")
            if depth <= 0:
                return
            count += 1
            if count % _TOKENS_A_STEP == 0:
                yield

    def end(self) -> None:
        """Nothing follows."""
        match = _SPACE.match(self.text, self.position)
        if match is None or match.end() != len(self.text):
            raise _Dialect("text after the end of the value")


def _plain_topic(value: dict[str, Any]) -> TopicConfig | None:
    """A topic that is written as every broker writes it, without a look at each of its types; None for others."""
    try:
        name, filter_type, order = value["topicName"], value["topicFilterType"], value["order"]
        numbers = (value["readQueueNums"], value["writeQueueNums"], value["perm"], value["topicSysFlag"])
    except KeyError:
        return None
    is_plain = type(name) is str and type(order) is bool and filter_type == "SINGLE_TAG"
    if not is_plain or any(type(each) is not int or not 0 <= each < 1 << 31 for each in numbers):
        return None
    reads, writes, perm, flag = numbers
    return TopicConfig(
        topic_name=name,
        read_queue_nums=reads,
        write_queue_nums=writes,
        perm=perm,
        topic_sys_flag=flag,
        order=order,
        attributes=_NO_ATTRIBUTES,
    )


_NO_ATTRIBUTES: dict[str, str] = {}
"""Shared by all, and never changed: a name server looks at no attributes."""


# --- the compressed form ---------------------------------------------------------------------------------


def _inflate(data: bytes) -> Generator[None, None, bytes]:
    inflater = zlib.decompressobj()
    most = min(MOST_INFLATED, _RATIO * len(data) + _ROOM_TO_INFLATE)
    found, size = [], 0
    try:
        while not inflater.eof and size <= most:
            part = inflater.decompress(data, _INFLATED_A_STEP)
            data = inflater.unconsumed_tail
            found.append(part)
            size += len(part)
            if not part and not data:
                break
            yield
    except zlib.error as exc:
        raise RemoteProtocolError(f"RegisterBrokerBody: the compressed form is damaged: {exc}") from exc
    if size > most:
        raise RemoteProtocolError(
            f"RegisterBrokerBody: more than {most} bytes when inflated: set enableSplitRegistration at the broker"
        )
    if not inflater.eof:
        raise RemoteProtocolError("RegisterBrokerBody: the compressed form is cut off")
    return b"".join(found)


class _Parts(LengthPrefixed):
    """Reads the inflated parts a few at a time."""

    def read(self, with_mappings: bool) -> Generator[None, None, RegisterBrokerBody]:
        """The whole body."""
        wrapper = TopicConfigAndMappingSerializeWrapper(data_version=DataVersion.decode(self.part()))
        for n in range(self.count()):
            words = self.text().split(" ", 5)
            topic = TopicConfig.from_text(" ".join(words[:5]))
            wrapper.topic_config_table[topic.topic_name] = topic
            if n % _TOPICS_A_STEP == 0:
                yield
        servers = parse_json(self.part(), max_depth=2, max_members=_MOST_OF_ONE)
        for n in range(self.count() if with_mappings else 0):
            mapping = TopicQueueMappingInfo.decode(self.part())
            wrapper.topic_queue_mapping_info_map[mapping.topic or ""] = mapping
            if n % _TOPICS_A_STEP == 0:
                yield
        found = RegisterBrokerBody.from_json({"filterServerList": servers})
        found.topic_config_serialize_wrapper = wrapper
        return found

    def count(self) -> int:
        """How many parts follow."""
        value = self.number()
        _check_count(value, self.most)
        return value
