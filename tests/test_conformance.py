"""The table of claimed behaviours is sound, and names of tests are read as meant."""

from __future__ import annotations

import pytest

from tests.conformance_report import claimed_rows, ids_in, report


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("test_ST4_damaged_last_record", ["ST4"]),
        ("test_threat_F6_negative_inner_length", ["threat_F6"]),
        ("test_RB2_RB3_consumers_share", ["RB2", "RB3"]),
        ("test_threat_F6_F7_lengths", ["threat_F6", "threat_F7"]),
        ("test_P1", ["P1"]),
        ("test_a_name_with_P1_inside", []),
        ("test_threat_free_input", []),
    ],
)
def test_ids_are_read_from_the_front_of_a_name(name: str, ids: list[str]) -> None:
    assert list(ids_in(name)) == ids


def test_claimed_rows_are_well_formed() -> None:
    rows = claimed_rows()
    assert len({row.id for row in rows}) == len(rows) > 100
    for row in rows:
        assert list(ids_in(f"test_{row.id}_x")) == [row.id]
        assert row.priority in ({"threat"} if row.id.startswith("threat_") else {"0", "1", "2"})
        assert row.behaviour


@pytest.mark.slow
def test_every_claimed_behaviour_has_a_test() -> None:
    summary, missing = report()
    assert not missing, f"{summary}; none for {', '.join(row.id for row in missing)}"
