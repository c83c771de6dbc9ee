"""Both clusters of a line, and what every step prints on each."""

from __future__ import annotations

import json
import re
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.interop.mqadmin import scene, text
from tests.interop.mqadmin.driver import Mqadmin, mqadmin
from tests.interop.mqadmin.step import Step, of_line
from tests.interop.mqadmin.steps import STEPS
from tests.interop.ours import our_cluster

if TYPE_CHECKING:
    from tests.interop.apache import Apache
    from tests.interop.mqadmin.scene import Scene


OVERRIDES = {"traceTopicEnable": True}
_ENDED = re.compile(r"InterruptedException|SubCommandException")
"""What a command prints when it is interrupted."""


@dataclass(frozen=True)
class Said:
    """What a step printed on Apache's servers, and on ours."""

    step: Step
    theirs: list[str]
    ours: list[str]


@dataclass(frozen=True)
class Run:
    """All steps of a line."""

    version: str
    commands: tuple[str, ...]
    """The names of all commands that the release has."""
    said: list[Said]


def run(apache: Apache) -> Run:
    """Start the servers of a line, and call every command on both."""
    steps = of_line(STEPS, apache.version)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rocketpy-mqadmin-")))
        tool = stack.enter_context(mqadmin(apache, directory))
        found = []
        clusters = (("theirs", apache.cluster(overrides=OVERRIDES)), ("ours", our_cluster(overrides=OVERRIDES)))
        for name, opened in clusters:
            with opened as cluster:
                (folder := directory / name).mkdir()
                with scene.prepared(cluster, folder) as prepared:
                    found.append([_said(tool, prepared, each) for each in steps])
        return Run(apache.version, tool.commands, [Said(*each) for each in zip(steps, *found, strict=True)])


def _said(tool: Mqadmin, prepared: Scene, step: Step) -> list[str]:
    arguments = step.arguments(prepared.places)
    if step.until:
        printed = tool.call_until(arguments, step.seconds, re.compile(step.until))
    else:
        printed = tool.call(arguments, step.seconds, enough=step.enough)
    lines = text.plain(printed, prepared.places, measured=step.measured)
    if step.enough:
        lines = [line for line in lines if not _ENDED.search(line)]
    if step.hashed:
        lines.sort()
    return lines + [line for each in step.files for line in _written(prepared, step, each)]


def _written(prepared: Scene, step: Step, name: str) -> list[str]:
    """What it wrote into a file, one line for each member of the JSON."""
    path = prepared.directory / name
    if not path.is_file():
        return [f"{name} is not there"]
    members = sorted(text.flat(json.loads(path.read_text("utf-8"))))
    return text.plain("\n".join(members), prepared.places, measured=step.measured)
