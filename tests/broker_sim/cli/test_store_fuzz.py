"""rocketpy-store on stores that were damaged at random: an answer or a typed refusal, and never anything else."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from rocketpy.wire.message_codec import decode_messages
from rocketpy_broker_sim.cli.store import main as program
from tests.broker_sim.cli.store_kit import ours
from tests.broker_sim.store.helpers import message, put_all
from tests.golden_store import unpacked

LOOKS = (
    ("ls",),
    ("commitlog",),
    ("commitlog", "--json", "--from", "100"),
    ("consumequeue", "-t", "Orders", "-q", "0", "--from", "0"),
    ("messages", "-t", "Orders", "-q", "1", "--from", "0"),
    ("messages", "-t", "GS_A", "-q", "1", "--json"),
    ("index",),
    ("checkpoint",),
    ("query", "-t", "Orders", "--key", "key3"),
    ("query", "-t", "Orders", "--time", "1"),
    ("check",),
)
FOLDERS = ("commitlog", "consumequeue", "index", "checkpoint")

damages = st.lists(
    st.tuples(
        st.sampled_from(["flip", "zero", "garbage", "cut", "grow", "remove", "copy", "empty"]),
        st.integers(0, 1 << 16),
        st.integers(0, 1 << 20),
        st.binary(min_size=1, max_size=40),
    ),
    min_size=1,
    max_size=4,
)


def run(command: str, store: Path, *arguments: str) -> tuple[int, str]:
    """Exit status and what it said; anything but a typed error comes out of it."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = program.main([command, str(store), *arguments])
    assert "Traceback" not in err.getvalue()
    return status, out.getvalue()


def damage(store: Path, kind: str, which: int, where: int, data: bytes) -> None:
    files = sorted(path for folder in FOLDERS for path in [store / folder, *(store / folder).rglob("*")])
    files = [path for path in files if path.is_file()]
    if not files:
        return
    path = files[which % len(files)]
    content = bytearray(path.read_bytes())
    at = where % max(1, len(content))
    if kind == "flip" and content:
        content[at] ^= data[0] or 1
    elif kind == "zero":
        content[at : at + 10 * len(data)] = bytes(len(content[at : at + 10 * len(data)]))
    elif kind == "garbage":
        content[at : at + len(data)] = data[: len(content) - at]
    elif kind == "cut":
        del content[at:]
    elif kind == "grow":
        content += data
    elif kind == "copy":
        content[:] = files[where % len(files)].read_bytes()
    elif kind == "empty":
        content.clear()
    if kind == "remove":
        path.unlink()
    else:
        path.write_bytes(content)


@pytest.fixture(scope="module")
def stores(tmp_path_factory) -> dict[str, Path]:
    """One of ours with keys, stopped in order, one that was killed, one of Apache's."""
    root = tmp_path_factory.mktemp("stores")
    for name in ("closed", "killed"):
        store = ours(root / name, max_hash_slot_num=10, max_index_num=40)
        put_all(
            store,
            [
                message(b"%d" % n * 30, queue_id=n % 3, properties=f"UNIQ_KEY\x01id{n:08d}\x02KEYS\x01key{n}\x02")
                for n in range(50)
            ],
        )
        store.close() if name == "closed" else store.abandon()
    return {**{name: root / name for name in ("closed", "killed")}, "apache": unpacked("5.3.3-v2-topic")}


@pytest.mark.slow
@given(name=st.sampled_from(["closed", "killed", "apache"]), damages=damages)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_threat_M12_a_damaged_store_is_shown_or_refused_by_name(stores, name, damages):
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "s"
        shutil.copytree(stores[name], store)
        for each in damages:
            damage(store, *each)
        for command, *arguments in LOOKS:
            status, _ = run(command, store, *arguments)
            assert status in (0, 1, 2), command


def test_threat_M12_one_damaged_message_is_taken_out_and_the_others_stay(stores, tmp_path):
    store = tmp_path / "s"
    shutil.copytree(stores["closed"], store)
    path = store / "commitlog" / "00000000000000004096"
    content = bytearray(path.read_bytes())
    content[300] ^= 1
    path.write_bytes(content)
    assert run("check", store)[0] == 1
    status, said = run("repair", store)
    assert (status, "damaged regions: 1, 188 bytes; lost messages: 1;" in said) == (0, True), said
    assert run("check", store)[0] == 0
    assert run("repair", store)[1].startswith("nothing is damaged")
    opened = ours(store, max_hash_slot_num=10, max_index_num=40)
    places = [(number % 3, number // 3) for number in range(50)]
    found = [decode_messages(opened.reads.get("Orders", *place, 1).records) for place in places]
    opened.close()
    whole = [number for number in range(50) if [each.body for each in found[number]] == [b"%d" % number * 30]]
    assert whole == [number for number in range(50) if number != 24], "each has its place still"


@pytest.mark.slow
@given(name=st.sampled_from(["closed", "killed", "apache"]), damages=damages)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_threat_M12_what_was_repaired_is_clean_and_opens(stores, name, damages):
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "s"
        shutil.copytree(stores[name], store)
        for each in damages:
            damage(store, *each)
        before, _ = run("check", store)
        status, _ = run("repair", store)
        if status == 0:
            event("repaired" if before else "nothing was damaged")
            after, said = run("check", store, "--json")
            assert after == 0, said
            assert run("repair", store)[1].startswith("nothing is damaged") or before == 0
            assert json.loads(said.splitlines()[-1])["clean"] is True
