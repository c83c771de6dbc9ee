"""Flag words: of messages, of pulls, permissions."""

from __future__ import annotations

import pytest

from rocketpy.wire.sysflag import Permission, PullSysFlag, with_transaction_type
from tests.tables import Table
from tests.vectors import java_cases


def test_transaction_bits() -> None:
    with Table() as table:
        for flag, expected in java_cases("transaction_bits"):
            with table.row(flag):
                assert with_transaction_type(flag, 8) == expected["resetTo8"]


def test_pull_flag() -> None:
    with Table() as table:
        for flag, expected in java_cases("pull_sysflag"):
            with table.row(flag):
                bits = {
                    "commit": PullSysFlag.COMMIT_OFFSET,
                    "suspend": PullSysFlag.SUSPEND,
                    "subscription": PullSysFlag.SUBSCRIPTION,
                    "classFilter": PullSysFlag.CLASS_FILTER,
                    "litePull": PullSysFlag.LITE_PULL,
                }
                assert {name: flag & bit != 0 for name, bit in bits.items()} == expected


def test_a_pull_flag_is_built_from_its_bits() -> None:
    with Table() as table:
        for flag in range(32):
            with table.row(flag):
                built = PullSysFlag.build(
                    commit_offset=bool(flag & 1),
                    suspend=bool(flag & 2),
                    subscription=bool(flag & 4),
                    class_filter=bool(flag & 8),
                    lite_pull=bool(flag & 16),
                )
                assert built == flag


@pytest.mark.parametrize(
    ("permission", "text", "readable", "writable", "inherited"),
    [
        (0, "---", False, False, False),
        (1, "--X", False, False, True),
        (2, "-W-", False, True, False),
        (4, "R--", True, False, False),
        (6, "RW-", True, True, False),
        (7, "RWX", True, True, True),
    ],
)
def test_permissions(permission: int, text: str, readable: bool, writable: bool, inherited: bool) -> None:
    assert Permission.text(permission) == text
    assert Permission.is_readable(permission) is readable
    assert Permission.is_writable(permission) is writable
    assert Permission.is_inherited(permission) is inherited


def test_valid_permissions_are_0_to_7() -> None:
    assert [value for value in range(-2, 20) if Permission.is_valid(value)] == list(range(8))
