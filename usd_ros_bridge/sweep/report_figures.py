"""Pictures of a sweep: metrics over parameters, and their histograms, as SVG."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.requirements import missing_requirement

MAX_METRICS: Final = 24
"""Metrics that get pictures; the others are in the table."""
_MAX_VALUES: Final = 60
"""Different values of a parameter up to which it is an axis of a heat map, or a row of categories."""
_MAX_VECTORS: Final = 2000
"""Points up to which a picture has each as a vector."""
_MAX_PANELS: Final = 12
_COLOUR: Final = "#2a6f97"
_ACCENT: Final = "#c8553d"
_MAP: Final = "viridis"
_ROUNDING = 1e-12
"""Values that differ by less, as a part of the largest one, are the same: no bins of a histogram lie between them."""

_SETTINGS: Final[Mapping[str, Any]] = {
    "svg.fonttype": "path",
    "svg.hashsalt": "usd_ros_bridge",
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "axes.axisbelow": True,
    "figure.facecolor": "white",
    # Names are text of somebody else, not formulas.
    "text.parse_math": False,
}


@dataclass(frozen=True, slots=True)
class ParameterColumn:
    """Values of a parameter, one for each run.

    Attributes:
        name: Name of the parameter.
        values: Numbers; for categories, their rank.
        labels: Names of the categories, empty for numbers.
    """

    name: str
    values: NDArray[np.float64]
    labels: tuple[str, ...] = ()

    @property
    def distinct(self) -> NDArray[np.float64]:
        """Return the different values, sorted."""
        found: NDArray[np.float64] = np.unique(self.values)
        return found


@dataclass(frozen=True, slots=True)
class ReportPicture:
    """A picture of the report.

    Attributes:
        title: What it shows.
        svg: The picture.
    """

    title: str
    svg: bytes


def make_column(name: str, values: Sequence[Any]) -> ParameterColumn:
    """Return the values of a parameter as numbers. Text and booleans are categories."""
    if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
        return ParameterColumn(name, np.asarray(values, dtype=np.float64))
    texts = [str(value) for value in values]
    labels = tuple(dict.fromkeys(sorted(texts)))
    rank = {label: number for number, label in enumerate(labels)}
    return ParameterColumn(name, np.array([rank[text] for text in texts], dtype=np.float64), labels)


def draw_pictures(
    parameters: Sequence[ParameterColumn], metrics: Mapping[str, NDArray[np.float64]]
) -> Iterator[ReportPicture]:
    """Draw each metric over the parameters that vary, and its histogram.

    One parameter gives a line with a band, two of a grid a heat map, others one panel each.

    Args:
        parameters: The parameters.
        metrics: For each metric, one number for each run; NaN where it has none.

    Raises:
        BridgeError: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise missing_requirement(error) or BridgeError(f"matplotlib cannot be imported: {error}") from error
    varied = [each for each in parameters if len(each.distinct) > 1]
    with mpl.rc_context(dict(_SETTINGS)):
        for name, values in list(metrics.items())[:MAX_METRICS]:
            known = np.isfinite(values)
            shown = values[known]
            if not shown.size or np.ptp(shown) <= _ROUNDING * np.abs(shown).max():
                continue  # A picture of a constant says nothing; the report has a line for it.
            columns = [ParameterColumn(each.name, each.values[known], each.labels) for each in varied]
            columns = [each for each in columns if len(each.distinct) > 1]
            if columns:
                yield _draw_over(columns, name, values[known])
            yield _draw_histogram(name, values[known])


def _draw_over(columns: Sequence[ParameterColumn], name: str, values: NDArray[np.float64]) -> ReportPicture:
    if len(columns) == 1:
        return _draw(
            f"{name} over {columns[0].name}", (6.4, 3.6), lambda axes: _line(axes, columns[0], name, values)
        )
    if len(columns) == 2:
        title = f"{name} over {columns[0].name} and {columns[1].name}"
        if _is_grid(columns, len(values)):
            return _draw(title, (6.4, 4.4), lambda axes: _heat_map(axes, columns, name, values))
        return _draw(title, (6.4, 4.4), lambda axes: _cloud(axes, columns, name, values))
    return _panels(columns[:_MAX_PANELS], name, values)


def _draw(title: str, size: tuple[float, float], draw: Callable[[Any], None]) -> ReportPicture:
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    draw(figure.add_subplot())
    return ReportPicture(title, _to_svg(figure))


def _panels(columns: Sequence[ParameterColumn], name: str, values: NDArray[np.float64]) -> ReportPicture:
    """Draw a panel for each parameter: all runs as points, the mean over equal or near values as a line."""
    from matplotlib.figure import Figure

    across = min(len(columns), 3)
    down = math.ceil(len(columns) / across)
    figure = Figure(figsize=(3.2 * across, 2.8 * down), layout="constrained")
    shared: Any = None
    for number, column in enumerate(columns):
        shared = axes = figure.add_subplot(down, across, number + 1, sharey=shared)
        _line(axes, column, name, values)
        if number % across:
            axes.set_ylabel("")
    return ReportPicture(f"{name} over {', '.join(column.name for column in columns)}", _to_svg(figure))


def _line(axes: Any, column: ParameterColumn, name: str, values: NDArray[np.float64]) -> None:
    """Draw all runs, the mean at each value, and the standard deviation around it as a band."""
    centres, groups = _groups(column, values)
    means = np.array([group.mean() for group in groups])
    spread = np.array([group.std() for group in groups])
    axes.plot(
        column.values,
        values,
        ".",
        color=_COLOUR,
        alpha=0.35,
        markersize=4,
        rasterized=len(values) > _MAX_VECTORS,
    )
    if column.labels:
        axes.errorbar(centres, means, yerr=spread, fmt="o", color=_ACCENT, capsize=4)
    else:
        axes.fill_between(centres, means - spread, means + spread, color=_ACCENT, alpha=0.15, linewidth=0)
        axes.plot(centres, means, "-", color=_ACCENT)
    _label(axes, column, "x")
    axes.set_ylabel(_short(name))


def _heat_map(axes: Any, columns: Sequence[ParameterColumn], name: str, values: NDArray[np.float64]) -> None:
    """Draw the mean of the runs at each pair of values."""
    across, down = columns[0].distinct, columns[1].distinct
    total, count = np.zeros((len(down), len(across))), np.zeros((len(down), len(across)))
    rows, places = np.searchsorted(down, columns[1].values), np.searchsorted(across, columns[0].values)
    np.add.at(total, (rows, places), values)
    np.add.at(count, (rows, places), 1.0)
    mean = np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)
    axes.grid(visible=False)
    mesh = axes.pcolormesh(_edges(across), _edges(down), mean, cmap=_MAP)
    axes.figure.colorbar(mesh, ax=axes, label=_short(name))
    _label(axes, columns[0], "x")
    _label(axes, columns[1], "y")


def _cloud(axes: Any, columns: Sequence[ParameterColumn], name: str, values: NDArray[np.float64]) -> None:
    """Draw each run as a point of the plane of two parameters, in the colour of the metric."""
    points = axes.scatter(
        columns[0].values,
        columns[1].values,
        c=values,
        s=16,
        cmap=_MAP,
        rasterized=len(values) > _MAX_VECTORS,
    )
    axes.figure.colorbar(points, ax=axes, label=_short(name))
    _label(axes, columns[0], "x")
    _label(axes, columns[1], "y")


def _draw_histogram(name: str, values: NDArray[np.float64]) -> ReportPicture:
    def draw(axes: Any) -> None:
        bins = min(max(round(math.sqrt(len(values))), 5), 60)
        axes.hist(values, bins=bins, color=_COLOUR, edgecolor="white", linewidth=0.5)
        axes.set_xlabel(_short(name))
        axes.set_ylabel("runs")

    return _draw(f"histogram of {name}", (4.2, 2.6), draw)


def _groups(
    column: ParameterColumn, values: NDArray[np.float64]
) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
    """Return the values of a parameter and the metrics at each; where all differ, those of intervals of equal count."""
    distinct, inverse = np.unique(column.values, return_inverse=True)
    if len(distinct) <= _MAX_VALUES and (
        column.labels or len(values) >= 2 * len(distinct) or len(distinct) <= 12
    ):
        return distinct, [values[inverse == number] for number in range(len(distinct))]
    order = np.argsort(column.values, kind="stable")
    parts = np.array_split(order, min(max(len(values) // 8, 4), 20))
    return np.array([column.values[part].mean() for part in parts]), [values[part] for part in parts]


def _is_grid(columns: Sequence[ParameterColumn], runs: int) -> bool:
    """Return whether most pairs of values have a run."""
    across, down = (len(column.distinct) for column in columns)
    return across <= _MAX_VALUES and down <= _MAX_VALUES and across * down <= 2 * runs


def _edges(centres: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the borders of the cells around sorted centres."""
    middle = (centres[1:] + centres[:-1]) / 2.0
    first, last = 2.0 * centres[0] - middle[0], 2.0 * centres[-1] - middle[-1]
    return np.concatenate(([first], middle, [last]))


def _label(axes: Any, column: ParameterColumn, axis: str) -> None:
    getattr(axes, f"set_{axis}label")(_short(column.name))
    if not column.labels:
        return
    shown = range(0, len(column.labels), math.ceil(len(column.labels) / 20))
    texts = [_short(column.labels[number], 16) for number in shown]
    rotation = 45 if axis == "x" and len(texts) > 6 else 0
    getattr(axes, f"set_{axis}ticks")(list(shown), texts, rotation=rotation)


def _short(text: str, length: int = 40) -> str:
    """Return text that a picture has room for, without what fonts have no glyphs for."""
    printable = "".join(each if each.isprintable() else "?" for each in text)
    return printable if len(printable) <= length else printable[: length - 1] + "…"


def _to_svg(figure: Any) -> bytes:
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    with io.BytesIO() as file:
        FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None, "Creator": None})
        return file.getvalue()
