"""What pinocchio says about a URDF: link positions, mass matrix, bias, and one second of free swing.

Runs in the conversion environment.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio
from asset_table import LinkDifference

STATES = 6
SEED = 158
MAX_SWING_STEP = 5e-4
"""s: Runge-Kutta of fourth order, whose error is then far below what is tested."""
MAX_DAMPING_RATE = 1e4
"""1/s: stronger dampers, which stand for gears, are left out of the swing. Their forces are in the samples."""
SWING_SECONDS = (1.0, 0.5, 0.25, 0.1)
TWIN = 1e-7
"""rad or m by which a second swing starts elsewhere."""
MAX_GROWTH = 30.0
"""How much farther apart the two may end than they started."""
SWING_RANGE = 0.3
"""Share of the joints' ranges at which the swing starts: without limits, it goes on to all of them."""


def oracle(urdf: Path, differences: tuple[LinkDifference, ...]) -> dict[str, Any]:
    """Returns JSON data of the URDF with all differences, with none, and with each left out.

    Values are in SI units; those of joints are in the order of `joints`.
    """
    variants = {"corrected": differences, "original": ()}
    for index in range(len(differences)):
        variants[f"without {index}"] = (*differences[:index], *differences[index + 1 :])
    models = {name: _Model(urdf, chosen) for name, chosen in variants.items()}
    corrected = models["corrected"]
    return {
        "links": corrected.links,
        "joints": corrected.joints,
        "samples": {name: model.samples() for name, model in models.items()},
        "swing": corrected.swing(),
    }


class _Model:
    """A URDF in pinocchio, its base held fast."""

    def __init__(self, urdf: Path, differences: Iterable[LinkDifference]) -> None:
        tree = ET.parse(urdf).getroot()
        for difference in differences:
            _apply(tree, difference)
        self.model = pinocchio.buildModelFromXML(ET.tostring(tree, encoding="unicode"))
        self.data = self.model.createData()
        self.links = [str(link.get("name")) for link in tree.findall("link")]
        self.joints = list(self.model.names)[1:]
        self._frames = [self.model.getFrameId(link, pinocchio.FrameType.BODY) for link in self.links]
        self._moved = list(self.model.joints)[1:]
        if any(joint.nv != 1 for joint in self._moved):
            raise ValueError(f"{urdf}: a joint has several degrees of freedom")
        self._rows = [joint.idx_v for joint in self._moved]
        dynamics = {joint.get("name"): joint.find("dynamics") for joint in tree.findall("joint")}
        self._damping = np.zeros(self.model.nv)
        for name, row in zip(self.joints, self._rows, strict=True):
            element = dynamics[name]
            self._damping[row] = 0.0 if element is None else float(element.get("damping", "0"))

    def samples(self) -> list[dict[str, Any]]:
        generator = np.random.default_rng(SEED)
        return [self._sample(generator) for _ in range(STATES)]

    def swing(self) -> dict[str, Any]:
        """Returns where a swing from rest ends, without friction, limits or contacts, with damping.

        It takes one second, and less where the motion is so chaotic that rounding would decide about its end.
        """
        start = SWING_RANGE * self._positions(np.random.default_rng(SEED))
        rate = self._damping_rate(self._configuration(start))
        damped = rate <= MAX_DAMPING_RATE
        step = 1.0 / math.ceil(max(1.0 / MAX_SWING_STEP, rate if damped else 0.0))
        for seconds in SWING_SECONDS:
            steps = round(seconds / step)
            end, close = (self._swing(each, steps, step, damped=damped) for each in (start, start + TWIN))
            if np.abs(end - close).max() <= MAX_GROWTH * TWIN:
                break
        return {"start": start.tolist(), "end": end.tolist(), "step": step, "steps": steps, "damped": damped}

    def _swing(self, start: np.ndarray, steps: int, step: float, *, damped: bool) -> np.ndarray:
        damping = self._damping if damped else 0.0 * self._damping
        q, v, moved = self._configuration(start), np.zeros(self.model.nv), start.copy()
        for _ in range(steps):
            mean, v = self._step(q, v, step, damping)
            q = pinocchio.integrate(self.model, q, step * mean)
            moved += step * mean[self._rows]
        return moved

    def _damping_rate(self, q: np.ndarray) -> float:
        """Returns the rate at which the fastest motion is damped, 1/s."""
        upper = np.triu(pinocchio.crba(self.model, self.data, q))
        matrix = upper + np.triu(upper, 1).T
        return float(np.abs(np.linalg.eigvals(np.linalg.solve(matrix, np.diag(self._damping)))).max())

    def _step(
        self, q: np.ndarray, v: np.ndarray, h: float, damping: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the mean velocity of one step of `h` seconds and the velocity at its end."""
        velocities, accelerations = [v], []
        for share in (0.0, 0.5, 0.5, 1.0):
            if accelerations:
                q_then = pinocchio.integrate(self.model, q, share * h * velocities[-1])
                velocities.append(v + share * h * accelerations[-1])
            else:
                q_then = q
            torque = -damping * velocities[-1]
            accelerations.append(pinocchio.aba(self.model, self.data, q_then, velocities[-1], torque).copy())
        weights = np.array([1.0, 2.0, 2.0, 1.0]) / 6.0
        return weights @ np.array(velocities), v + h * (weights @ np.array(accelerations))

    def _sample(self, generator: np.random.Generator) -> dict[str, Any]:
        model, data, rows = self.model, self.data, self._rows
        positions = self._positions(generator)
        q, v = self._configuration(positions), np.zeros(model.nv)
        v[rows] = generator.normal(size=len(rows))
        pinocchio.framesForwardKinematics(model, data, q)
        places = [data.oMf[frame].translation.tolist() for frame in self._frames]
        upper = np.triu(pinocchio.crba(model, data, q))
        matrix = upper + np.triu(upper, 1).T
        bias = pinocchio.nonLinearEffects(model, data, q, v)
        return {
            "positions": positions.tolist(),
            "velocities": v[rows].tolist(),
            "places": places,
            "mass_matrix": matrix[np.ix_(rows, rows)].tolist(),
            "bias": bias[rows].tolist(),
            "damping_forces": (-self._damping * v)[rows].tolist(),
        }

    def _positions(self, generator: np.random.Generator) -> np.ndarray:
        """Returns positions within the limits and half a turn or 3 m, rad or m."""
        positions = []
        for joint in self._moved:
            lower, upper = -math.pi, math.pi
            if joint.nq == 1:
                lower = max(lower, self.model.lowerPositionLimit[joint.idx_q])
                upper = min(upper, self.model.upperPositionLimit[joint.idx_q])
            positions.append(generator.uniform(lower, max(lower, upper)))
        return np.array(positions)

    def _configuration(self, positions: np.ndarray) -> np.ndarray:
        """Returns pinocchio's vector, in which a continuous joint is the cosine and the sine of its angle."""
        q = pinocchio.neutral(self.model)
        for joint, value in zip(self._moved, positions, strict=True):
            values = (value,) if joint.nq == 1 else (math.cos(value), math.sin(value))
            q[joint.idx_q : joint.idx_q + joint.nq] = values
        return q


def _apply(tree: ET.Element, difference: LinkDifference) -> None:
    (inertial,) = tree.findall(f"link[@name='{difference.link}']/inertial")
    if difference.center is not None:
        origin = inertial.find("origin")
        origin = ET.SubElement(inertial, "origin") if origin is None else origin
        origin.set("xyz", " ".join(map(str, difference.center)))
    if difference.nearest_moments:
        element = inertial.find("inertia")
        xx, xy, xz, yy, yz, zz = (
            float(element.get(name, "0")) for name in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
        )
        moments, axes = np.linalg.eigh([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        moments += np.array([1.0, 1.0, -1.0]) * (moments[2] - moments[0] - moments[1]) / 3.0
        tensor = axes @ np.diag(moments) @ axes.T
        for name, (row, column) in {
            "ixx": (0, 0), "ixy": (0, 1), "ixz": (0, 2), "iyy": (1, 1), "iyz": (1, 2), "izz": (2, 2),
        }.items():  # fmt: skip
            element.set(name, repr(float(tensor[row, column])))
