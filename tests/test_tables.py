"""A table goes on after a row that fails, and tells all of them."""

from __future__ import annotations

import pytest

from tests.tables import Table


def test_all_rows_that_fail_are_told_by_name() -> None:
    done = []
    with pytest.raises(AssertionError, match=r"^3 of 5 rows fail: b, c, e\n--- b\n") as caught:  # noqa: PT012
        with Table() as table:
            for row in "abcde":
                with table.row(row):
                    done.append(row)
                    if row == "c":
                        raise KeyError("none")
                    if row == "e":
                        with pytest.raises(ValueError, match="never"):
                            pass
                    assert row != "b"
    assert done == [*"abcde"]
    assert "assert 'b' != 'b'" in str(caught.value)
    assert "KeyError: 'none'" in str(caught.value)
    assert "DID NOT RAISE" in str(caught.value)
    assert "test_tables.py:" in str(caught.value)


def test_a_table_whose_rows_are_right_is_right() -> None:
    with Table() as table:
        with table.row(1):
            pass


def test_a_table_without_rows_is_wrong() -> None:
    with pytest.raises(AssertionError, match="no rows"):
        with Table():
            pass


def test_what_fails_outside_the_rows_is_seen_and_an_interrupt_ends_the_table() -> None:
    with pytest.raises(KeyError):
        with Table():
            raise KeyError
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        with Table() as table:
            with table.row(1):
                raise KeyboardInterrupt
