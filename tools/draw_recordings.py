"""Draw recordings of controllers as SVG: the rover's path and speeds, and the arm's joints with the ends of its goals.

`record_controllers.py` calls it. The same bag gives the same file.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from recordings import read_arm, read_rover

plt.switch_backend("svg")
# Text stays text: the file is small, and every reader has a font. A salt, so that ids do not differ each time.
mpl.rcParams.update(
    {
        "svg.fonttype": "none",
        "svg.hashsalt": "usd_ros_bridge",
        "path.simplify_threshold": 0.3,
        "font.family": "sans-serif",
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.25,
        "legend.frameon": False,
    }
)

COLOURS = {"accepted": "#2b8a3e", "canceling": "#e67700", "succeeded": "#1864ab", "canceled": "#c92a2a"}
"""Of what is marked: a goal is executing at once."""
DEGREES = 180.0 / math.pi
AT_ONCE = 0.1
"""Seconds between two marks that would cover each other."""
LONGEST_GAP = 0.2
"""Seconds between two feedback messages of one goal, at most."""


def draw_rover(bag: Path, svg: Path) -> None:
    """Draws the rover's way, its speeds and its wheels."""
    rover = read_rover(bag)
    figure = plt.figure(figsize=(9.0, 4.8), layout="constrained")
    grid = figure.add_gridspec(3, 2, width_ratios=(1.0, 1.5))
    way = figure.add_subplot(grid[:, 0])
    x, y = rover.place.columns
    way.plot(x, y, color="#1864ab")
    way.plot(x[0], y[0], "o", color="#2b8a3e", label="start")
    way.plot(x[-1], y[-1], "s", color="#c92a2a", label="end")
    way.set(title="/rover/odom", xlabel="x (m)", ylabel="y (m)", aspect="equal")
    way.legend(loc="best")
    forward, turning, wheels = (figure.add_subplot(grid[row, 1]) for row in range(3))
    for axes, number, unit in ((forward, 0, "v (m/s)"), (turning, 1, "w (rad/s)")):
        axes.plot(
            rover.commanded.times,
            rover.commanded.columns[number],
            ".",
            ms=3,
            color="#e67700",
            label="cmd_vel",
        )
        axes.plot(rover.twist.times, rover.twist.columns[number], color="#1864ab", label="odom")
        axes.set_ylabel(unit)
    for number, (side, colour) in enumerate((("left", "#5f3dc4"), ("right", "#0b7285"))):
        wheels.plot(rover.wheels.times, rover.wheels.columns[number], color=colour, label=side)
    wheels.set(xlabel="bridge time (s)", ylabel="wheels (rad/s)")
    stopped = rover.commanded.times[-1]
    for axes in (forward, turning, wheels):
        axes.axvline(stopped, color="#868e96", lw=0.8, ls="--")
        axes.legend(loc="lower left", bbox_to_anchor=(0.0, 0.95), ncols=2, fontsize=8, borderaxespad=0.0)
    forward.text(
        stopped, 1.02, "last command", transform=forward.get_xaxis_transform(), ha="center", fontsize=8
    )
    _save(figure, svg)


def draw_arm(bag: Path, svg: Path) -> None:
    """Draws the arm's joints, desired and actual, and marks what became of its goals."""
    arm = read_arm(bag)
    figure, axes = plt.subplots(figsize=(9.0, 4.2), layout="constrained")
    actual, desired = arm.actual.columns * DEGREES, arm.desired.columns * DEGREES
    # Nothing is desired between two goals: their lines do not join.
    gaps = np.flatnonzero(np.diff(arm.desired.times) > LONGEST_GAP) + 1
    desired_times = np.insert(arm.desired.times, gaps, np.nan)
    for number, name in enumerate(arm.joints):
        (line,) = axes.plot(arm.actual.times, actual[number], lw=1.2, label=name)
        wanted = np.insert(desired[number], gaps, np.nan)
        axes.plot(desired_times, wanted, lw=5.0, color=line.get_color(), alpha=0.3, solid_capstyle="butt")
    above = axes.get_xaxis_transform()
    for time, goal, states in _marks(arm.ends):
        colour = COLOURS[states[-1]]
        axes.axvline(time, color=colour, lw=1.0, ls="--")
        side = "right" if states[-1] == "succeeded" else "left"
        label = f"goal {goal}: {', '.join(states)}"
        axes.text(time, 1.01, label, transform=above, ha=side, fontsize=8, color=colour)
    axes.set(xlabel="bridge time (s)", ylabel="joint position (degrees)")
    axes.plot([], [], lw=1.2, color="#495057", label="actual (joint_states)")
    axes.plot([], [], lw=5.0, color="#495057", alpha=0.3, label="desired (feedback)")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
    _save(figure, svg)


def _marks(ends: list[tuple[float, int, str]]) -> list[tuple[float, int, list[str]]]:
    """Returns where to mark which states of which goal: those that follow within a tick or two are one mark."""
    marks: list[tuple[float, int, list[str]]] = []
    for time, goal, state in ends:
        if state not in COLOURS:
            continue
        if marks and marks[-1][1] == goal and time - marks[-1][0] < AT_ONCE:
            marks[-1][2].append(state)
        else:
            marks.append((time, goal, [state]))
    return marks


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    # A hundredth of a point is less than what can be seen.
    text = re.sub(r"(\d+\.\d{2})\d+", r"\1", path.read_text(encoding="utf-8"))
    text = re.sub(r"<!DOCTYPE.*?>\s*|\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    path.write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n", encoding="utf-8")
