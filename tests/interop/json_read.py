"""What Apache's classes make of unusual JSON: the texts of `tests.wire.json_cases`, read by two releases.

`python -m tests.interop.json_read` writes the golden table again. What a class makes up by itself is left out: the
number of a command, the time of a subscription.
"""

from __future__ import annotations

import base64
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.interop.apache import Apache
from tests.interop.drivers import running
from tests.wire.json_cases import GOLDEN, HEADER, Case, Row, cases

if TYPE_CHECKING:
    from collections.abc import Iterable

RELEASES = ("4.9.7", "5.3.3")


def asked(releases: Iterable[Apache]) -> list[Row]:
    """Ask every release for every text."""
    answers = [_answers(release) for release in releases]
    return [Row(case, tuple(answer[at] for answer in answers)) for at, case in enumerate(cases())]


def _answers(release: Apache) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        listing = Path(folder) / "cases.tsv"
        lines = [f"{case.kind}\t{base64.b64encode(case.text.encode()).decode()}\n" for case in cases()]
        listing.write_text("".join(lines), "utf-8")
        with running(release, "JsonRead", cases=listing) as driver:
            events = driver.finish()
    return [_without_own(case, event["value"]) for case, event in zip(cases(), events, strict=True)]


def _without_own(case: Case, answer: str) -> str:
    if answer.startswith("error "):
        return "error"
    return json.dumps(_cleaned(case.text.lower(), json.loads(answer)), sort_keys=True)


def _cleaned(text: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_cleaned(text, each) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: _cleaned(text, each) for name, each in value.items() if not _is_made_up(text, name, each)}


def _is_made_up(text: str, name: str, value: Any) -> bool:
    if name == "opaque":
        return "opaque" not in text or '"opaque":null' in text
    return name == "subVersion" and len(str(value)) == 13 and str(value) not in text


def write_golden(rows: Iterable[Row]) -> None:
    """Write the golden table."""
    lines = [(row.case.kind, json.dumps(row.case.text), *row.answers) for row in rows]
    GOLDEN.write_text("".join("\t".join(line) + "\n" for line in [HEADER, *lines]), "utf-8")


if __name__ == "__main__":
    write_golden(asked(Apache.resolve(version) for version in RELEASES))
