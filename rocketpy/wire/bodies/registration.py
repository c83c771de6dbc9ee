"""What a broker tells the name server about its topics: RegisterBrokerBody in its plain and its compressed form.

The compressed form is one zlib stream of length-prefixed parts. Plays the part of RegisterBrokerBody and
TopicConfigAndMappingSerializeWrapper.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Generator, Iterable
from json.encoder import encode_basestring

import attrs

from rocketpy.errors import RemoteProtocolError
from rocketpy.wire.bodies.topics import (
    DataVersion,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicQueueMappingDetail,
    TopicQueueMappingInfo,
)
from rocketpy.wire.json_body import Body, body, member
from rocketpy.wire.lenient_json import parse_json, write_json
from rocketpy.wire.limits import DEFAULT_LIMITS, WireLimits

__all__ = [
    "BODY_SINCE",
    "MAPPINGS_SINCE",
    "PIECE_FIELD",
    "ZLIB_START",
    "LengthPrefixed",
    "Piece",
    "RegisterBrokerBody",
    "TopicConfigAndMappingSerializeWrapper",
    "encode_steps",
    "text_of",
]

PIECE_FIELD = "registrationPiece"
"""The extension field of ours in REGISTER_BROKER that tells which part of a registration a request is; see `Piece`."""
_TOPICS_A_STEP = 64
"""Topics that are read or written at a time: about a millisecond."""

_INT32 = struct.Struct(">i")
ZLIB_START = 0x78
BODY_SINCE = 37
"""Ordinal of V3_0_11, the first version whose body is more than the topics."""
MAPPINGS_SINCE = 413
"""Ordinal of V5_0_0, the first version that sends mappings in the compressed form."""


@body
class TopicConfigAndMappingSerializeWrapper(TopicConfigSerializeWrapper):
    """All topics of a broker, with the static ones among them (5.x)."""

    topic_queue_mapping_info_map: dict[str, TopicQueueMappingInfo] = member(factory=dict)
    topic_queue_mapping_detail_map: dict[str, TopicQueueMappingDetail] = member(factory=dict)
    mapping_data_version: DataVersion = member(factory=DataVersion)


@body
class RegisterBrokerBody(Body):
    """The body of REGISTER_BROKER. There are other forms, which the header and the version tell: see `decode_any`."""

    topic_config_serialize_wrapper: TopicConfigAndMappingSerializeWrapper = member(
        factory=TopicConfigAndMappingSerializeWrapper
    )
    filter_server_list: list[str] = member(factory=list)

    def encode_compressed(self, *, with_attributes: bool = True) -> bytes:
        """The compressed form, with the attributes of topics or without."""
        wrapper = self.topic_config_serialize_wrapper
        topics = list(wrapper.topic_config_table.values())
        mappings = list(wrapper.topic_queue_mapping_info_map.values())
        parts = [_sized(wrapper.data_version.encode()), _INT32.pack(len(topics))]
        parts += [_sized(topic.to_text(with_attributes=with_attributes).encode()) for topic in topics]
        parts += [_sized(write_json(self.filter_server_list).encode()), _INT32.pack(len(mappings))]
        parts += [_sized(mapping.encode()) for mapping in mappings]
        return zlib.compress(b"".join(parts), 9)

    @classmethod
    def decode_any(
        cls, data: bytes, *, version: int, compressed: bool = False, limits: WireLimits = DEFAULT_LIMITS
    ) -> RegisterBrokerBody:
        """Read either form; the first byte tells a compressed one whose header forgot to say so.

        Args:
            data: the body; an empty one registers no topics.
            version: the version in the frame of the sender, which tells whether it is more than the topics, and
                whether mappings follow.
            compressed: what the header says.
            limits: bounds of what is read.

        Raises:
            RemoteProtocolError: it is neither form.
        """
        if not data:
            return cls()
        if version < BODY_SINCE:
            return cls(topic_config_serialize_wrapper=TopicConfigAndMappingSerializeWrapper.decode(data, limits=limits))
        if not compressed and data[0] != ZLIB_START:
            return cls.decode(data, limits=limits)
        return _Compressed(_inflate(data, limits.max_inflated), limits).read(version >= MAPPINGS_SINCE)


@attrs.frozen(kw_only=True)
class Piece:
    """Which part of a registration a request is: "2/63" of all topics of a broker, or "changes", just some of them."""

    index: int | None = None
    """Counted from 0; None when these are changes."""
    count: int = 0

    @property
    def is_last(self) -> bool:
        """Whether all topics are told when this one is."""
        return self.index is not None and self.index == self.count - 1

    def to_text(self) -> str:
        """As it travels."""
        return "changes" if self.index is None else f"{self.index}/{self.count}"

    @classmethod
    def from_text(cls, text: str | None) -> Piece | None:
        """What a peer says; None when it says nothing that is understood, as Apache's brokers do."""
        if text == "changes":
            return cls()
        index, separator, count = (text or "").partition("/")
        if not separator or max(len(index), len(count)) > 6 or not (index.isdecimal() and count.isdecimal()):
            return None
        return cls(index=int(index), count=int(count)) if int(index) < int(count) else None


def encode_steps(
    topics: Iterable[TopicConfig], version: DataVersion, *, compressed: bool = False
) -> Generator[None, None, bytes]:
    """The body of a registration of plain topics, made a few topics at a time.

    The compressed form is without attributes: name servers of 4.x cannot read them there, and none looks at them.
    """
    texts: list[str] = []
    for topic in topics:
        if compressed:
            texts.append(topic.to_text(with_attributes=False))
        else:
            name = encode_basestring(topic.topic_name)
            texts.append(
                f'{name}:{{"attributes":{write_json(topic.attributes) if topic.attributes else "{}"},'
                f'"order":{"true" if topic.order else "false"},"perm":{topic.perm:d},'
                f'"readQueueNums":{topic.read_queue_nums:d},"topicFilterType":"{topic.topic_filter_type.name}",'
                f'"topicName":{name},"topicSysFlag":{topic.topic_sys_flag:d},'
                f'"writeQueueNums":{topic.write_queue_nums:d}}}'
            )
        if len(texts) % _TOPICS_A_STEP == 0:
            yield
    if not compressed:
        wrapper = TopicConfigAndMappingSerializeWrapper(data_version=version)
        frame = RegisterBrokerBody(topic_config_serialize_wrapper=wrapper).encode()
        before, table, after = frame.partition(b'"topicConfigTable":{')
        return b"".join((before, table, ",".join(texts).encode(), after))
    packer = zlib.compressobj(9)
    parts = [packer.compress(_sized(version.encode()) + _INT32.pack(len(texts)))]
    for start in range(0, len(texts), _TOPICS_A_STEP):
        parts.append(packer.compress(b"".join(_sized(t.encode()) for t in texts[start : start + _TOPICS_A_STEP])))
        yield
    parts.append(packer.compress(_sized(b"[]") + _INT32.pack(0)))
    parts.append(packer.flush())
    return b"".join(parts)


def _sized(data: bytes) -> bytes:
    return _INT32.pack(len(data)) + data


def _inflate(data: bytes, limit: int) -> bytes:
    inflater = zlib.decompressobj()
    try:
        found = inflater.decompress(data, limit)
    except zlib.error as exc:
        raise RemoteProtocolError(f"RegisterBrokerBody: the compressed form is damaged: {exc}") from exc
    if not inflater.eof:
        raise RemoteProtocolError(f"RegisterBrokerBody: cut off, or over the limit of {limit} bytes")
    return found


class LengthPrefixed:
    """Reads the inflated parts in order, every length checked against what is left.

    Args:
        data: the inflated form.
        most: parts that one count may announce.
        most_of_one: bytes of a part.
    """

    def __init__(self, data: bytes, most: int, most_of_one: int) -> None:
        self.data = data
        self.most = most
        self.most_of_one = most_of_one
        self.position = 0

    def number(self) -> int:
        """A length or a count, never more than there are bytes left."""
        left = len(self.data) - self.position - 4
        value: int = _INT32.unpack_from(self.data, self.position)[0] if left >= 0 else -1
        if not 0 <= value <= left:
            raise RemoteProtocolError(f"RegisterBrokerBody: a length of {value}, {max(left, 0)} bytes are left")
        self.position += 4
        return value

    def count(self) -> int:
        """How many parts follow."""
        value = self.number()
        if value > self.most:
            raise RemoteProtocolError(f"RegisterBrokerBody: {value} entries are over the limit")
        return value

    def part(self) -> bytes:
        """One part."""
        length = self.number()
        if length > self.most_of_one:
            raise RemoteProtocolError(f"RegisterBrokerBody: a part of {length} bytes, the limit is {self.most_of_one}")
        start = self.position
        self.position += length
        return self.data[start : self.position]

    def text(self) -> str:
        """One part as text."""
        return text_of(self.part())


def text_of(data: bytes) -> str:
    """The text of a body, or of a part of one.

    Raises:
        RemoteProtocolError: it is not UTF-8.
    """
    try:
        return data.decode()
    except UnicodeDecodeError as exc:
        raise RemoteProtocolError("RegisterBrokerBody: text that is not UTF-8") from exc


class _Compressed(LengthPrefixed):
    """Reads the whole of the compressed form at once."""

    def __init__(self, data: bytes, limits: WireLimits) -> None:
        super().__init__(data, limits.max_body_members, len(data))
        self.limits = limits

    def read(self, with_mappings: bool) -> RegisterBrokerBody:
        """The whole body."""
        version = DataVersion.decode(self.part(), limits=self.limits)
        topics = [TopicConfig.from_text(self.text()) for _ in range(self.count())]
        servers = parse_json(self.part(), max_depth=2, max_members=self.limits.max_body_members)
        mappings = [TopicQueueMappingInfo.decode(self.part()) for _ in range(self.count())] if with_mappings else []
        wrapper = TopicConfigAndMappingSerializeWrapper(
            data_version=version,
            topic_config_table={topic.topic_name: topic for topic in topics},
            topic_queue_mapping_info_map={mapping.topic or "": mapping for mapping in mappings},
        )
        found = RegisterBrokerBody.from_json({"filterServerList": servers})
        found.topic_config_serialize_wrapper = wrapper
        return found
