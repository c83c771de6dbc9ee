"""Where the 4.x line answers, stores or shows otherwise than 5.x, which ours plays, and why. The one table of it.

Tests that run on both lines ask `of(version)` what holds there; what a line does as 5.x does stands nowhere here.
Not here: where ours differs from both on purpose (`questions.APART`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.interop.apache import LINES, VERSION

if TYPE_CHECKING:
    from rocketpy.message import MessageExt
    from tests.interop.probe import Answer

OLDER = LINES[1]


@dataclass(frozen=True)
class Otherwise:
    """What a line answers where 5.x answers something else."""

    code: int
    why: str
    fields: Mapping[str, str] = field(default_factory=dict)
    """Fields that have another value, where the code is the same."""


@dataclass(frozen=True)
class Line:
    """What to expect of a line."""

    answers: Mapping[str, Otherwise] = field(default_factory=dict)
    """By the name of the question."""
    lacking_fields: Mapping[str, str] = field(default_factory=dict)
    """Fields that its brokers' answers do not have, and since when there is such a thing."""
    lacking_properties: Mapping[str, str] = field(default_factory=dict)
    """Properties that its brokers do not store with a message."""
    gives_unique_ids: bool = True
    """Whether its brokers give an id to a message that has none."""
    separators_missing: int = 0
    """Separators that its brokers leave out of the properties of a stored message."""
    lacking_keys: Mapping[str, str] = field(default_factory=dict)
    """Keys that bodies of its name server do not have."""
    lacking_members: Mapping[str, str] = field(default_factory=dict)
    """Members of bodies that its brokers do not tell to administrators."""
    unanswered: Mapping[int, str] = field(default_factory=dict)
    """Requests that its name server does not know and leaves without an answer."""
    unpacked_flag: int = 3 << 8
    """The sysFlag of a message whose body its client has unpacked: 3 is zlib, the lowest bit says compressed."""
    finds_times: bool = True
    """Whether its search by time leads to a message of that very time."""
    filtered_retries: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)
    """What its brokers give of retries with `filterSupportRetry`, by the name of the question."""
    resets_without_offset: bool = True
    """Whether its brokers set the offset of a group back in queues where it has none."""
    answers_as_asked: bool = False
    """Whether its servers answer in the header encoding of the request rather than in their own."""


_UNKNOWN = "the request came with 5.x"
_SYSTEM_ERROR = "SYSTEM_ERROR for every bad parameter; INVALID_PARAMETER came with 5.x"
_NO_CHECK = "the check came with 5.x"
_OFFSET_ZERO = (
    "says 0 for a group without an offset as long as the queue starts at 0; 5.x looks whether it holds anything"
)

_ANSWERS: dict[str, Otherwise] = {
    **{
        name: Otherwise(1, _SYSTEM_ERROR)
        for name in (
            "send to a queue that is none",
            "send to an illegal topic",
            "send to a topic too long",
            "pull a queue that is none",
            "pull a negative queue",
            "create a topic with a bad name",
            "create a topic with a long name",
            "create a topic of the system",
            "delete a topic of the system",
            "delete a topic without a name",
        )
    },
    **{
        name: Otherwise(3, _UNKNOWN)
        for name in (
            "pull as a lite consumer",
            "look at a topic",
            "look at an unknown topic",
            "look at a group",
            "look at a group that is made by it",
            "forbid a group",
            "what a group consumes",
            "what an unknown group consumes",
            "a subscription",
            "modes of all groups",
            "a mode for an unknown topic",
            "a mode for a retry topic",
            "a group that pulls",
            "how slaves are",
            "a flushed offset for a master",
            "epochs",
            "create a user",
            "list users",
            "look at rules",
        )
    },
    **{
        name: Otherwise(0, _OFFSET_ZERO, {"offset": "0"})
        for name in (
            "the same, not zero",
            "the offset of a new group, empty queue",
            "the offset in an unknown topic",
            "the offset in a queue that is none",
        )
    },
    **{
        name: Otherwise(0, _NO_CHECK)
        for name in (
            "pull for an illegal group",
            "commit for an unknown group",
            "commit in an unknown topic",
            "send an empty body",
            "create a topic with an unknown attribute",
        )
    },
    **{
        name: Otherwise(1, "a NullPointerException, which 5.x answers for")
        for name in ("commit nothing", "unregister nobody", "a version that is none")
    },
    **{
        name: Otherwise(0, "5.x alone keeps a list of such keys")
        for name in ("set the home", "set what may not be set")
    },
    "send without a topic": Otherwise(
        1, "region and trace are in every answer to a send", {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
    ),
    **{
        f"offset at 9999999999999{boundary} in Same-asked": Otherwise(
            0, "behind the last message its search stops at that one", {"offset": "2"}
        )
        for boundary in ("", " LOWER")
    },
}

_LINES = {
    VERSION: Line(),
    OLDER: Line(
        answers=_ANSWERS,
        lacking_fields={
            "transactionId": "empty in 5.x where there is no transaction",
            "topicSysFlag": "units, told to pullers since 5.x",
            "groupSysFlag": "units, told to pullers since 5.x",
            "forbiddenType": "says since 5.x why a pull was refused",
            "IS_SUPPORT_HEART_BEAT_V2": "short heartbeats came with 5.x",
            "IS_SUB_CHANGE": "short heartbeats came with 5.x",
        },
        lacking_properties={
            "MSG_REGION": "stored with the message since 5.x",
            "TRACE_ON": "stored with the message since 5.x",
            "WAIT": "left out of the stored message until 5.x, except in batches",
        },
        gives_unique_ids=False,
        separators_missing=1,  # behind the last property
        lacking_keys={"enableActingMaster": "replicas that act as master came with 5.x"},
        lacking_members={
            "dataVersion": "versions of offsets came with 5.x",
            "groupTopicMap": "told since 5.x",
            "topicPutTps": "told since 5.x",
        },
        unanswered={
            217: "registering a topic alone came with 5.x",
            901: "member groups came with 5.x",
            904: "short heartbeats came with 5.x",
            0: "what it does not know gets no answer at all",
            7777: "what it does not know gets no answer at all",
        },
        unpacked_flag=3 << 8 | 1,
        # It asks SQL92 of the original topic even where the retry topic is subscribed by tags, as all consumers do.
        filtered_retries={"retries, tags": (), "retries, told as consumers do": (b"1", b"3")},
        finds_times=False,  # it chooses the file of the queue by when that was last written to
        resets_without_offset=False,
        answers_as_asked=True,
    ),
}


def of(version: str) -> Line:
    """What to expect of a line."""
    return _LINES[version]


def check_otherwise(theirs: Answer, ours: Answer, known: Otherwise) -> None:
    """The other line gives the answer that is known of it, and ours another one."""
    assert theirs.code == known.code, (known.why, theirs.remark)
    assert theirs.fields.items() >= known.fields.items(), known.why
    same_fields = ours.fields.items() >= known.fields.items()
    assert (ours.code, same_fields) != (theirs.code, True), "there is no difference any more"


def known(properties: Mapping[str, str], line: Line) -> dict[str, str]:
    """The properties of a message that brokers of the line store."""
    return {name: value for name, value in properties.items() if name not in line.lacking_properties}


def size_without_properties(message: MessageExt, separators_missing: int = 0) -> int:
    """The size of a stored message but for its properties, each of which has a separator within it and one behind."""
    properties = sum(len((name + value).encode()) + 2 for name, value in message.wire_properties.items())
    return message.store_size - properties + separators_missing
