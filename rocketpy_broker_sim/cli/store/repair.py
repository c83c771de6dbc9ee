"""rocketpy-store repair: damaged parts of the log move aside, queues and index are rebuilt."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import attrs

from rocketpy.cli.output import Column, Output
from rocketpy.cli.text import cut, escaped
from rocketpy.errors import ConfigError, StoreError
from rocketpy_broker_sim.cli.store.opening import mounts_of, opened_store, settings_of
from rocketpy_broker_sim.cli.store.progress import progress_bar
from rocketpy_broker_sim.store.disk.real import RealStorage
from rocketpy_broker_sim.store.inspect.check import Check
from rocketpy_broker_sim.store.inspect.index_shape import store_shape
from rocketpy_broker_sim.store.inspect.layout import detected_size
from rocketpy_broker_sim.store.repair.apply import Repair
from rocketpy_broker_sim.store.repair.plan import RepairPlan, make_plan

if TYPE_CHECKING:
    import argparse

    from rocketpy_broker_sim.config import MessageStoreConfig
    from rocketpy_broker_sim.store.inspect.layout import StoreLayout

HELP = "move damaged parts of the log aside and rebuild queues and index; the store must not be in use"
_COLUMNS = (
    Column("file", lambda row: escaped(row["path"])),
    Column("position", "position", True),
    Column("size", "size", True),
    Column("lost", lambda row: str(len(row["lostMessages"])), True),
    Column("what", lambda row: cut(escaped(row["reason"]), 120)),
)
_DONE, _DAMAGED = 0, 1


def add_options(parser: argparse.ArgumentParser) -> None:
    """What is special about this command."""
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    parser.add_argument("--rebuild", action="store_true", help="rebuild queues and index even if nothing is damaged")


def run(options: argparse.Namespace) -> int:
    """Repair it."""
    output = Output(as_json=options.json)
    directory = os.path.expanduser(options.directory)
    with opened_store(options, writes=True) as layout:
        config = _sized(layout)
        topics, unclean = {topic for topic, _ in layout.queues}, layout.unclean
        if options.dry_run:
            needed, plan = _planned(layout, options)
            for _ in plan.replacements() if needed else ():
                pass  # to see that they fit: what the repair itself would refuse is refused here too
            return _shown(output, needed, plan, "would be moved aside", "would be rebuilt", done=False)
        repair = Repair(RealStorage(directory, mounts=mounts_of(directory, settings_of(options))), config)
        with repair.locked():
            needed, plan = _planned(layout, options)
            if needed:
                repair.mend_log(plan)
    if needed:
        repair.rebuild(topics)
        _verify(options)
        if unclean or plan.tails:
            repair.leave_unclean()
    return _shown(output, needed, plan, f"moved to {repair.folder}", "rebuilt", done=True)


def _sized(layout: StoreLayout) -> MessageStoreConfig:
    """The settings with the sizes that the files have.

    Raises:
        ConfigError: No file and no settings tell the size of queue files, or the settings are of another store.
    """
    _refuse_other_sizes(layout)
    sizes = {row.file_size for row in layout.queues.values() if row.files}
    if not sizes and not layout.has_settings:
        raise ConfigError(
            "there are no queue files left from which their size could be read: give the settings that the store was "
            "created with (-c broker.conf)"
        )
    config = attrs.evolve(layout.config, mapped_file_size_commit_log=layout.log.file_size)
    shape = store_shape(layout)
    if shape is not None:
        config = attrs.evolve(config, max_hash_slot_num=shape.slots, max_index_num=shape.entries)
    return attrs.evolve(config, mapped_file_size_consume_queue=sizes.pop()) if sizes else config


def _refuse_other_sizes(layout: StoreLayout) -> None:
    """With wrong sizes, a repair would find gaps and surplus everywhere, fill the gaps and cut off the surplus.

    Raises:
        ConfigError: The log was made with another file size than the settings say.
    """
    size, found = layout.log.file_size, detected_size(layout.log.files)
    if found != size and any(file.size > size or file.start % size for file in layout.log.files):
        raise ConfigError(
            f"the log files of {layout.storage.describe('')} have {found} bytes, not {size} as the settings say "
            "(mappedFileSizeCommitLog): name the settings that the store was made with, or leave -c out"
        )


def _planned(layout: StoreLayout, options: argparse.Namespace) -> tuple[bool, RepairPlan]:
    """Whether anything must be done, and what.

    Raises:
        ConfigError: The settings are needed for it.
    """
    bounds = layout.log.start, layout.log.end
    with progress_bar("checking", *bounds) as progress:
        check = Check(layout, progress=progress)
        for _ in check.findings():
            pass
    with progress_bar("planning", *bounds) as progress:
        plan = make_plan(layout, progress)
    needed = bool(options.rebuild or check.counts.damage)
    if needed and plan.has_other_delays and not layout.has_settings:
        raise ConfigError(
            "the delayed messages of the store have other times of delivery than the usual messageDelayLevel gives, "
            "and their queues would be built with that: give the settings of the broker (-c broker.conf)"
        )
    return needed, plan


def _verify(options: argparse.Namespace) -> None:
    """See that nothing is damaged any more."""
    with opened_store(options) as layout:
        check = Check(layout)
        left = [finding for finding in check.findings() if finding.kind == "damage"]
    if left:
        raise StoreError(f"{len(left)} findings are left after the repair, the first: {left[0].text}; run check")


def _shown(output: Output, needed: bool, plan: RepairPlan, moved: str, built: str, *, done: bool) -> int:
    regions = plan.all if needed else []
    output.rows(_COLUMNS, (region.row() for region in regions))
    if not needed:
        output.note("nothing is damaged, nothing to repair")
    else:
        size = sum(region.kept - region.begin for region in regions if region.kept > region.begin)
        output.note(f"damaged regions: {len(regions)}, {size} bytes; lost messages: {plan.lost}; {moved}")
        if plan.cut:
            output.note(f"valid records that another broker cut off: {plan.cut}; {moved}")
        output.note(f"queues and index: {built}")
    if output.as_json:
        lost = plan.lost if needed else 0
        row = {"kind": "summary", "repaired": needed and done, "regions": len(regions), "lostMessages": lost}
        cut = {"cutRecords": plan.cut} if needed and plan.cut else {}
        output.rows((), [row | cut])
    return _DONE if done or not needed else _DAMAGED
