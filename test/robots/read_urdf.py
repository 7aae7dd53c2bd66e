"""Reads URDFs by pinocchio, which parses with urdfdom: `python read_urdf.py REQUEST`, in the conversion environment.

REQUEST is a JSON file: `urdf`, a path, or `robot`, a robot of prepare_robots; and `configurations`, joint positions by
name (rad or m). The answer, as JSON on standard output: `root`; `links`; `limits` (lower, upper, velocity, effort by
joint; null where there is none); `mass` (kg), `center` (m) and `inertia` (3 x 3, kg m^2, about the root's origin) of
the whole robot with all joints at zero; `poses` by configuration, x y z (m) and qx qy qz qw, from the root to each
link.
"""

from __future__ import annotations

import json
import math
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio


def original(robot: str) -> Path:
    from prepare_robots import ROBOTS, example_robot_data

    return example_robot_data() / "robots" / ROBOTS[robot]


def configuration(model: pinocchio.Model, positions: dict[str, float]) -> np.ndarray:
    """The positions as pinocchio wants them: a continuous joint is the cosine and the sine of its angle."""
    vector = pinocchio.neutral(model)
    for name, position in positions.items():
        joint = model.joints[model.getJointId(name)]
        vector[joint.idx_q : joint.idx_q + joint.nq] = (
            position if joint.nq == 1 else (math.cos(position), math.sin(position))
        )
    return vector


def limits(model: pinocchio.Model) -> dict[str, dict[str, float] | None]:
    result: dict[str, dict[str, float] | None] = {}
    for name, joint in zip(model.names[1:], model.joints[1:], strict=True):
        q, v = joint.idx_q, joint.idx_v
        result[name] = None
        if joint.nq == 1:
            result[name] = {
                "lower": float(model.lowerPositionLimit[q]), "upper": float(model.upperPositionLimit[q]),
                "velocity": float(model.upperVelocityLimit[v]), "effort": float(model.upperEffortLimit[v]),
            }  # fmt: skip
    return result


def whole(model: pinocchio.Model, data: pinocchio.Data) -> pinocchio.Inertia:
    """The robot as one rigid body, in the root's frame. What is fixed to the root counts: the universe carries it."""
    pinocchio.forwardKinematics(model, data, pinocchio.neutral(model))
    total = pinocchio.Inertia.Zero()
    for placement, inertia in zip(data.oMi, model.inertias, strict=True):
        total += placement.act(inertia)
    return total


def answer(request: dict[str, Any]) -> dict[str, Any]:
    path = Path(request["urdf"]) if "urdf" in request else original(request["robot"])
    model = pinocchio.buildModelFromUrdf(str(path))
    data = model.createData()
    links = [str(link.get("name")) for link in ET.parse(path).getroot().findall("link")]
    frames = [model.getFrameId(link, pinocchio.FrameType.BODY) for link in links]
    total = whole(model, data)
    poses = []
    for positions in request["configurations"]:
        pinocchio.framesForwardKinematics(model, data, configuration(model, positions))
        poses.append([pinocchio.SE3ToXYZQUAT(data.oMf[frame]).tolist() for frame in frames])
    return {
        "root": model.frames[1].name
        if model.frames[1].type == pinocchio.FrameType.BODY
        else model.frames[2].name,
        "links": links,
        "limits": limits(model),
        "mass": total.mass,
        "center": total.lever.tolist(),
        "inertia": total.matrix()[3:, 3:].tolist(),
        "poses": poses,
    }


if __name__ == "__main__":
    json.dump(answer(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))), sys.stdout)
