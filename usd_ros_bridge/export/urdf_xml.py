"""URDF's elements: numbers, poses and joints as XML attributes."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from usd_ros_bridge.export.urdf_joints import UrdfJoint
from usd_ros_bridge.model.looks import Color, srgb
from usd_ros_bridge.model.physics import Dof, Inertial
from usd_ros_bridge.model.transforms import FloatArray, pose, to_matrix

UNLIMITED: Final = 1e9
"""What a limit says that there is none of (rad, m, rad/s, m/s, N m or N): URDF requires numbers, and its parsers take
no infinity."""

_ROUNDING: Final = 1e-12


def document(root: ET.Element) -> str:
    """Returns a document with one element per line."""
    ET.indent(root)
    return '<?xml version="1.0"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def number(value: float) -> str:
    """Returns a number with twelve digits, beyond which it is rounding."""
    return f"{value + 0.0:.12g}"


def numbers(values: Iterable[float]) -> str:
    """Returns numbers, 0 where only rounding keeps them from it."""
    return " ".join(number(0.0 if abs(value) < _ROUNDING else value) for value in values)


def add_origin(element: ET.Element, parent_from_child: FloatArray) -> None:
    """Adds the `origin` of a pose (7,), none for the identity."""
    attributes = {
        "xyz": numbers(parent_from_child[:3].tolist()),
        "rpy": numbers(roll_pitch_yaw(parent_from_child)),
    }
    if any(text != "0 0 0" for text in attributes.values()):
        ET.SubElement(element, "origin", attributes)


def roll_pitch_yaw(a_from_b: FloatArray) -> tuple[float, float, float]:
    """Returns the angles about fixed X, Y and Z axes, in this order, of a pose (7,), radians.

    Roll follows from what yaw and pitch leave, so that the three together are exact where pitch is a right angle, too.
    """
    m = to_matrix(a_from_b)[:3, :3].tolist()
    level = math.hypot(m[0][0], m[1][0])
    yaw = math.atan2(m[1][0], m[0][0]) if level > _ROUNDING else 0.0
    pitch = math.atan2(-m[2][0], level)
    sine, cosine = math.sin(yaw), math.cos(yaw)
    roll = math.atan2(sine * m[0][2] - cosine * m[1][2], cosine * m[1][1] - sine * m[0][1])
    return roll, pitch, yaw


def add_inertial(link: ET.Element, inertial: Inertial) -> None:
    """Adds mass, centre of mass, and the inertia about it as a matrix in the link's axes; nothing for no mass."""
    if not inertial.mass > 0.0:
        return
    element = ET.SubElement(link, "inertial")
    add_origin(element, pose(inertial.center))
    ET.SubElement(element, "mass", {"value": number(inertial.mass)})
    axes = to_matrix(pose(rotation=inertial.principal))[:3, :3]
    matrix = axes @ np.diag(inertial.diagonal) @ axes.T
    least = _ROUNDING * float(np.abs(matrix).max())
    ET.SubElement(
        element,
        "inertia",
        {
            f"i{'xyz'[row]}{'xyz'[column]}": number(_cleaned(float(matrix[row, column]), least))
            for row in range(3)
            for column in range(row, 3)
        },
    )


def _cleaned(value: float, least: float) -> float:
    return value if abs(value) > least else 0.0


def add_joint(
    robot: ET.Element, joint: UrdfJoint, *, physics: Dof | None, leader: tuple[str, float, float] | None
) -> None:
    """Adds a joint.

    Args:
        robot: The document's root.
        joint: The joint.
        physics: What engines know of its degree of freedom, None where nothing does.
        leader: Name of the joint that it mimics, multiplier and offset (rad or m); None where it mimics none.
    """
    element = ET.SubElement(robot, "joint", {"name": joint.name, "type": joint.type})
    add_origin(element, joint.origin)
    ET.SubElement(element, "parent", {"link": joint.parent})
    ET.SubElement(element, "child", {"link": joint.child})
    if joint.axis is not None:
        ET.SubElement(element, "axis", {"xyz": numbers(joint.axis.tolist())})
    if joint.dof is None:
        return
    _add_limit(element, joint)
    if physics is not None:
        _add_dynamics(element, physics)
    if leader is not None:
        name, multiplier, offset = leader
        ET.SubElement(
            element, "mimic", {"joint": name, "multiplier": number(multiplier), "offset": number(offset)}
        )


def _add_limit(element: ET.Element, joint: UrdfJoint) -> None:
    dof = joint.dof
    assert dof is not None
    bounds = {"effort": number(_finite(dof.max_effort)), "velocity": number(_finite(dof.max_velocity))}
    if joint.type != "continuous":
        bounds = {"lower": number(_finite(dof.lower)), "upper": number(_finite(dof.upper)), **bounds}
    elif math.isinf(dof.max_effort) and math.isinf(dof.max_velocity):
        return
    ET.SubElement(element, "limit", bounds)


def _finite(value: float) -> float:
    return min(max(value, -UNLIMITED), UNLIMITED)


def _add_dynamics(element: ET.Element, dof: Dof) -> None:
    passive = {"damping": 0.0 if dof.drive is not None else dof.damping, "friction": dof.friction}
    told = {name: number(value) for name, value in passive.items() if value > 0.0}
    if told:
        ET.SubElement(element, "dynamics", told)


class Materials:
    """Colours, each said once at the top of the document and named by visuals."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def add_to(self, visual: ET.Element, color: Color) -> None:
        """Makes a visual refer to a colour: linear as in OpenUSD, sRGB as in URDF."""
        rgba = " ".join(number(round(value, 6)) for value in srgb(color))
        name = self._names.setdefault(rgba, f"color_{len(self._names) + 1}")
        ET.SubElement(visual, "material", {"name": name})

    def define(self) -> list[ET.Element]:
        """Returns the definitions of all colours referred to so far."""
        found = []
        for rgba, name in self._names.items():
            material = ET.Element("material", {"name": name})
            ET.SubElement(material, "color", {"rgba": rgba})
            found.append(material)
        return found


def add_geometry(shape: ET.Element, tag: str, attributes: Mapping[str, str]) -> None:
    """Adds the geometry of a visual or collision."""
    ET.SubElement(ET.SubElement(shape, "geometry"), tag, dict(attributes))
