"""XML elements of URDF: origins, inertials, joints, geometries and materials."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping
from typing import Final

from usd_ros_bridge.export.urdf.urdf_joints import UrdfJoint
from usd_ros_bridge.model.appearance import Color, srgb
from usd_ros_bridge.model.physics import Dof, Inertial
from usd_ros_bridge.spatial.pose import Pose, normalized, roll_pitch_yaw, rotation_matrix

UNLIMITED: Final = 1e9
"""Written for a limit that does not exist (rad, m, rad/s, m/s, N m or N): URDF requires numbers, and its parsers reject
infinity."""

_ROUNDING: Final = 1e-12


def number(value: float) -> str:
    """Return a number with twelve digits. The rest is rounding."""
    return f"{value + 0.0:.12g}"


def numbers(values: Iterable[float]) -> str:
    """Return numbers; those that differ from 0 by rounding alone are 0."""
    return " ".join(number(0.0 if abs(value) < _ROUNDING else value) for value in values)


def add_origin(element: ET.Element, parent_from_child: Pose) -> None:
    """Add the `origin` of a pose; the identity needs none."""
    attributes = {
        "xyz": numbers(parent_from_child.translation),
        "rpy": numbers(roll_pitch_yaw(parent_from_child.rotation)),
    }
    if any(text != "0 0 0" for text in attributes.values()):
        ET.SubElement(element, "origin", attributes)


def add_inertial(link: ET.Element, inertial: Inertial) -> None:
    """Add mass, centre of mass, and the inertia matrix about it in the link's axes. A link without mass gets none."""
    if not inertial.mass > 0.0:
        return
    element = ET.SubElement(link, "inertial")
    add_origin(element, Pose(inertial.center))
    ET.SubElement(element, "mass", {"value": number(inertial.mass)})
    matrix = _inertia(inertial)
    least = _ROUNDING * max(map(abs, matrix.values()))
    values = {name: number(value if abs(value) > least else 0.0) for name, value in matrix.items()}
    ET.SubElement(element, "inertia", values)


def _inertia(inertial: Inertial) -> dict[str, float]:
    """Return `R diag(moments) R^T` by URDF's attribute names. R rotates the principal axes to the link's."""
    axes = rotation_matrix(normalized(Pose(rotation=inertial.principal)).rotation)
    return {
        f"i{'xyz'[row]}{'xyz'[column]}": sum(
            left * moment * right
            for left, moment, right in zip(axes[row], inertial.diagonal, axes[column], strict=True)
        )
        for row in range(3)
        for column in range(row, 3)
    }


def add_joint(
    robot: ET.Element, joint: UrdfJoint, *, physics: Dof | None, leader: tuple[str, float, float] | None
) -> None:
    """Add a joint.

    Args:
        robot: The document's root.
        joint: The joint.
        physics: Its degree of freedom in the physics scene, None if it has none.
        leader: Name of the joint that it mimics, multiplier and offset (rad or m); None if it mimics none.
    """
    element = ET.SubElement(robot, "joint", {"name": joint.name, "type": joint.type})
    add_origin(element, joint.origin)
    ET.SubElement(element, "parent", {"link": joint.parent})
    ET.SubElement(element, "child", {"link": joint.child})
    if joint.axis is not None:
        ET.SubElement(element, "axis", {"xyz": numbers(joint.axis)})
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
    present = {name: number(value) for name, value in passive.items() if value > 0.0}
    if present:
        ET.SubElement(element, "dynamics", present)


class UrdfMaterials:
    """Colours of a document: each is defined once at the top, and visuals refer to it by name."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def add_to(self, visual: ET.Element, color: Color) -> None:
        """Refer to a colour in a visual: linear as in OpenUSD, sRGB in the document."""
        rgba = " ".join(number(round(value, 6)) for value in srgb(color))
        name = self._names.setdefault(rgba, f"color_{len(self._names) + 1}")
        ET.SubElement(visual, "material", {"name": name})

    def define(self) -> list[ET.Element]:
        """Return the definitions of all colours referred to so far."""
        found = []
        for rgba, name in self._names.items():
            material = ET.Element("material", {"name": name})
            ET.SubElement(material, "color", {"rgba": rgba})
            found.append(material)
        return found


def add_geometry(shape: ET.Element, tag: str, attributes: Mapping[str, str]) -> None:
    """Add the geometry of a visual or collision."""
    ET.SubElement(ET.SubElement(shape, "geometry"), tag, dict(attributes))
