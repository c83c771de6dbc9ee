"""A plot of the delays, by day of the year, and by carrier and hour of the day."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from datetime import date

    from pyspark.sql import Column, DataFrame

ZONE = "America/New_York"
MOST = 60.0
"""Minutes; longer delays have the same colour."""


class NoPictureError(Exception):
    """The plot cannot be drawn; the text says why and what to do."""


class Figures(NamedTuple):
    """What is drawn: mean delays in minutes."""

    days: list[tuple[date, float]]
    """In the order of time."""
    hours: dict[tuple[str, int], float]
    """By carrier and hour of the day in New York."""


def figures(delays: DataFrame) -> Figures:
    """Sum up the delays for the plot."""
    from pyspark.sql import functions as f

    local = f.from_utc_timestamp("hour", ZONE)
    departed = delays.where("departed > 0")
    days = departed.groupBy(f.to_date(local).alias("day")).agg(_mean()).orderBy("day").collect()
    hours = departed.groupBy("carrier", f.hour(local)).agg(_mean()).collect()
    return Figures([(day, mean) for day, mean in days], {(carrier, hour): mean for carrier, hour, mean in hours})


def _mean() -> Column:
    from pyspark.sql import functions as f

    return f.sum(f.col("mean_delay") * f.col("departed")) / f.sum("departed")


def draw(found: Figures, file: Path) -> None:
    """Draw the plot into a file, whose format is that of its suffix.

    Raises:
        NoPictureError: matplotlib is missing, there is nothing to draw, or the file cannot be written.
    """
    if not found.days:
        raise NoPictureError("no flight has departed")
    try:
        os.environ.setdefault("MPLBACKEND", "agg")
        from matplotlib import pyplot
    except ImportError as error:
        raise NoPictureError("it needs matplotlib: run ./dev spark-demo, or pip install matplotlib") from error
    carriers = sorted({carrier for carrier, _ in found.hours}, reverse=True)
    hours = range(min(hour for _, hour in found.hours), max(hour for _, hour in found.hours) + 1)
    cells = [[found.hours.get((carrier, hour), float("nan")) for hour in hours] for carrier in carriers]
    drawn, (above, below) = pyplot.subplots(2, figsize=(10, 8), layout="constrained")
    above.plot([day for day, _ in found.days], [mean for _, mean in found.days], color="#3c5a99", linewidth=1)
    above.set_title("Flights from New York City: mean delay of departure, in minutes, by day")
    mesh = below.pcolormesh([*hours], carriers, cells, shading="nearest", cmap="viridis", vmax=MOST)
    below.set_title("by carrier and hour of scheduled departure")
    below.set_xticks([*hours])
    drawn.colorbar(mesh, ax=below, extend="max")
    try:
        drawn.savefig(file)
    except (OSError, ValueError) as error:
        raise NoPictureError(f"it cannot be written to {file}: {error}") from error
    finally:
        pyplot.close(drawn)
