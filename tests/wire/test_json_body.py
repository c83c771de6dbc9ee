"""The way to declare a JSON body: what every declaration can rely on."""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

import pytest

from rocketpy.errors import RemoteProtocolError
from rocketpy.wire.json_body import Body, Int32, body, member
from rocketpy.wire.limits import WireLimits
from rocketpy.wire.steps import run_steps
from tests.tables import Table


class Colour(Enum):
    RED = "RED"
    BLUE = "BLUE"


class Place(NamedTuple):
    topic: str
    broker_name: str
    queue_id: int


@body
class Inner(Body):
    name: str
    weight: float = 1.5


@body
class Everything(Body):
    plain_text: str = ""
    number: int = 0
    small: Int32 = 0
    truth: bool = False
    raw: bytes = b""
    colour: Colour | None = None
    inner: Inner | None = None
    inners: list[Inner] = member(factory=list)
    names: set[str] = member(factory=set)
    by_number: dict[int, str] = member(factory=dict)
    by_place: dict[Place, Inner] = member(factory=dict)
    places: list[Place] = member(factory=list)
    client_id: str | None = member(default=None, name="clientID", also=("clientId",))
    anything: Any = None


FULL = Everything(
    plain_text="ä\"'",
    number=2**60,
    small=-7,
    truth=True,
    raw=b"\x00\xff",
    colour=Colour.BLUE,
    inner=Inner(name="i"),
    inners=[Inner(name="a"), Inner(name="b", weight=0.0)],
    names={"z", "a"},
    by_number={0: "zero", 10: "ten"},
    by_place={Place("T", "b", 1): Inner(name="p")},
    places=[Place("T", "b", 2)],
    client_id="c",
    anything={"x": [1, "two"]},
)


def test_written_as_java_writes() -> None:
    assert FULL.encode().decode() == (
        '{"anything":{"x":[1,"two"]},"byNumber":{0:"zero",10:"ten"},'
        '"byPlace":{{"brokerName":"b","queueId":1,"topic":"T"}:{"name":"p","weight":1.5}},'
        '"clientID":"c","colour":"BLUE","inner":{"name":"i","weight":1.5},'
        '"inners":[{"name":"a","weight":1.5},{"name":"b","weight":0.0}],"names":["a","z"],"number":1152921504606846976,'
        '"places":[{"brokerName":"b","queueId":2,"topic":"T"}],"plainText":"ä\\"\'","raw":"AP8=","small":-7,"truth":true}'
    )


@pytest.mark.parametrize("browser", [False, True])
def test_reads_what_it_writes(browser: bool) -> None:
    assert Everything.decode(FULL.encode(browser_compatible=browser)) == FULL


def test_browser_compatible_is_standard_json() -> None:
    import json

    found = json.loads(FULL.encode(browser_compatible=True).decode("ascii"))
    assert found["byNumber"] == {"0": "zero", "10": "ten"}
    assert json.loads(next(iter(found["byPlace"]))) == {"brokerName": "b", "queueId": 1, "topic": "T"}


def test_defaults_stand_for_what_is_missing_or_null() -> None:
    assert Everything.decode(b'{"number":null,"names":null,"unknown":{"a":1}}') == Everything()


def test_numbers_and_text_stand_for_each_other() -> None:
    found = Everything.decode(
        b'{"plainText":5,"number":"12","small":3.0,"truth":"TRUE","inner":{"name":1,"weight":"2"}}'
    )
    assert (found.plain_text, found.number, found.small, found.truth) == ("5", 12, 3, True)
    assert found.inner == Inner(name="1", weight=2.0)


@pytest.mark.parametrize("name", ['""', '"null"'])
def test_an_entry_of_a_map_is_left_out_if_its_key_is_none(name: str) -> None:
    """Java has a null there, which nobody who counts by numbers expects."""
    data = b'{"byNumber":{%b:"lost",0:"zero"}}' % name.encode()
    assert Everything.decode(data).by_number == {0: "zero"}
    assert run_steps(Everything.decode_steps(data)).by_number == {0: "zero"}


def test_other_names_count() -> None:
    assert Everything.decode(b'{"clientId":"c"}').client_id == "c"
    assert Everything.decode(b'{"clientId":"c","clientID":"d"}').client_id == "d"


def test_unknown_name_of_an_enumeration_is_none() -> None:
    assert Everything.decode(b'{"colour":"GREEN"}').colour is None


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"", "missing"),
        (b"[]", "array"),
        (b"null", "None"),
        (b'{"inner":{}}', "inner: the member name"),
        (b'{"inner":[]}', "inner"),
        (b'{"number":[]}', "number"),
        (b'{"number":1e30}', "number"),
        (b'{"number":9223372036854775808}', "64 bits"),
        (b'{"small":2147483648}', "32 bits"),
        (b'{"number":"1.5"}', "number"),
        (b'{"number":"1_0"}', "number"),
        (b'{"truth":"2"}', "neither"),
        (b'{"truth":[]}', "neither"),
        (b'{"raw":"?"}', "base64"),
        (b'{"names":{}}', "array"),
        (b'{"byNumber":{"x":"y"}}', "byNumber"),
        (b'{"byNumber":[]}', "object"),
        (b'{"byPlace":{"x":{}}}', "key"),
        (b'{"byPlace":{{"topic":"T"}:{"name":""}}}', "brokerName"),
        (b'{"places":[5]}', "object"),
        (b'{"colour":5}', "Colour"),
        (b'{"inner":{"name":"a","weight":"x"}}', "weight"),
        (b"\xff", "UTF-8"),
    ],
)
def test_what_is_not_the_body_is_one_error(data: bytes, part: str) -> None:
    with pytest.raises(RemoteProtocolError, match=part):
        Everything.decode(data)


def test_limits_hold() -> None:
    with pytest.raises(RemoteProtocolError, match="limit"):
        Everything.decode(b'{"plainText":"' + b"x" * 100 + b'"}', limits=WireLimits(max_json_body=50))
    with pytest.raises(RemoteProtocolError, match="nested"):
        Everything.decode(b'{"anything":' + b"[" * 100 + b"]" * 100 + b"}")


def test_references_are_put_back() -> None:
    data = b'{"inner":{"name":"one"},"inners":[{"$ref":"$.inner"},{"name":"b"},{"$ref":"$.inners[1]"},{"$ref":"$.no"}]}'
    found = Everything.decode(data)
    assert found.inners == [Inner(name="one"), Inner(name="b"), Inner(name="b")]


def test_paths_of_references() -> None:
    rows = [
        ("$.inner", "one"),
        ("$['inner']", "one"),
        ("$.inners[0]", "zero"),
        ("$.inners[7]", None),
        ("$.inners.x", None),
        ("$.inner.name.x", None),
        ("$!", None),
        ("inner", None),
    ]
    with Table() as table:
        for path, name in rows:
            with table.row(path):
                data = '{"inner":{"name":"one"},"inners":[{"name":"zero"},{"$ref":"PATH"}]}'.replace("PATH", path)
                found = Everything.decode(data.encode()).inners
                assert [each.name for each in found] == ["zero"] + ([name] if name else [])


def test_a_reference_to_the_parent_is_the_structure_around_it() -> None:
    with pytest.raises(RemoteProtocolError, match="bound"):
        Everything.decode(b'{"anything":[{"$ref":".."}]}')
    assert Everything.decode(b'{"anything":{"$ref":"..","x":1}}').anything == {"$ref": "..", "x": 1}


def test_references_never_grow_without_bound() -> None:
    rings = (b'{"anything":{"$ref":"$"}}', b'{"anything":{"a":{"$ref":".."}}}', b'{"anything":{"a":{"$ref":"@"}}}')
    for data in rings:
        with pytest.raises(RemoteProtocolError, match="bound"):
            Everything.decode(data)
    levels = ",".join(f'"l{i + 1}":[{{"$ref":"$.anything.l{i}"}},{{"$ref":"$.anything.l{i}"}}]' for i in range(40))
    with pytest.raises(RemoteProtocolError, match="bound"):
        Everything.decode(f'{{"anything":{{"l0":[1,2],{levels}}}}}'.encode())


def test_a_type_that_cannot_travel_is_refused_when_it_is_first_used() -> None:
    @body
    class Wrong(Body):
        when: complex = 0j

    with pytest.raises(TypeError, match="complex"):
        Wrong().encode()
