"""Reads a URDF and places its links as the format says, sharing no code with what writes it."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def _rotation(axis: Matrix, angle: float) -> Matrix:
    """Rodrigues' formula, (3, 3)."""
    x, y, z = axis
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + np.sin(angle) * cross + (1.0 - np.cos(angle)) * cross @ cross


def _floats(text: str) -> Matrix:
    return np.array([float(part) for part in text.split()])


def origin(element: ET.Element) -> Matrix:
    """The pose (4, 4) that the element's `origin` says: turned about fixed X, then Y, then Z."""
    result = np.eye(4)
    child = element.find("origin")
    if child is not None:
        result[:3, 3] = _floats(child.get("xyz", "0 0 0"))
        turns = zip(np.eye(3), _floats(child.get("rpy", "0 0 0")), strict=True)
        for axis, angle in turns:
            result[:3, :3] = _rotation(axis, angle) @ result[:3, :3]
    return result


@dataclass(frozen=True)
class ReadJoint:
    """A joint as its element has it."""

    name: str
    type: str
    parent: str
    child: str
    parent_from_child: Matrix
    axis: Matrix
    limit: Mapping[str, float] | None
    dynamics: Mapping[str, float] | None
    mimic: tuple[str, float, float] | None

    def motion(self, position: float) -> Matrix:
        result = np.eye(4)
        if self.type in ("revolute", "continuous"):
            result[:3, :3] = _rotation(self.axis, position)
        elif self.type == "prismatic":
            result[:3, 3] = position * self.axis
        return result


class ReadUrdf:
    """A URDF as a reader has it."""

    def __init__(self, text: str) -> None:
        self.element = ET.fromstring(text)
        assert self.element.tag == "robot"
        self.name = str(self.element.get("name"))
        self.links = {str(link.get("name")): link for link in self.element.findall("link")}
        assert len(self.links) == len(self.element.findall("link")), "two links share a name"
        joints = [_joint(each) for each in self.element.findall("joint")]
        self.joints = {joint.name: joint for joint in joints}
        assert len(self.joints) == len(joints), "two joints share a name"
        self.into = {joint.child: joint for joint in joints}
        assert len(self.into) == len(joints), "two joints lead to one link"
        assert {joint.parent for joint in joints} | self.into.keys() <= self.links.keys()
        (self.root,) = self.links.keys() - self.into.keys()
        self.colors = {
            str(each.get("name")): tuple(_floats(str(each.find("color").get("rgba"))).tolist())  # type: ignore[union-attr]
            for each in self.element.findall("material")
        }

    def poses(self, positions: Mapping[str, float]) -> dict[str, Matrix]:
        """`root_from_link` (4, 4) of all links. Mimic joints follow their rule, others are where `positions` says."""
        result = {self.root: np.eye(4)}

        def pose(link: str) -> Matrix:
            if link not in result:
                joint = self.into[link]
                moved = joint.parent_from_child @ joint.motion(self._position(joint, positions))
                result[link] = pose(joint.parent) @ moved
            return result[link]

        for link in self.links:
            pose(link)
        return result

    def _position(self, joint: ReadJoint, positions: Mapping[str, float]) -> float:
        if joint.mimic is None:
            return positions.get(joint.name, 0.0)
        leader, multiplier, offset = joint.mimic
        assert self.joints[leader].mimic is None, "a chain of mimic joints"
        return multiplier * positions[leader] + offset

    def shapes(self, link: str, kind: str) -> list[tuple[str, Matrix, str, Mapping[str, str], Any]]:
        """Name, pose, geometry and its attributes, and colour of a link's visuals or collisions."""
        found = []
        for element in self.links[link].findall(kind):
            (geometry,) = element.findall("geometry/*")
            material = element.find("material")
            color = None if material is None else self.colors[str(material.get("name"))]
            found.append((str(element.get("name")), origin(element), geometry.tag, geometry.attrib, color))
        return found

    def inertia(self, link: str) -> tuple[float, Matrix, Matrix] | None:
        """Mass, pose of the centre of mass (4, 4) and inertia about it (3, 3); None for a link without."""
        element = self.links[link].find("inertial")
        if element is None:
            return None
        mass = float(element.find("mass").get("value"))  # type: ignore[union-attr, arg-type]
        i = {name: float(value) for name, value in element.find("inertia").attrib.items()}  # type: ignore[union-attr]
        matrix = np.array(
            [[i["ixx"], i["ixy"], i["ixz"]], [i["ixy"], i["iyy"], i["iyz"]], [i["ixz"], i["iyz"], i["izz"]]]
        )
        return mass, origin(element), matrix


def _joint(element: ET.Element) -> ReadJoint:
    def numbers(tag: str) -> Mapping[str, float] | None:
        child = element.find(tag)
        return None if child is None else {name: float(value) for name, value in child.attrib.items()}

    axis, mimic = element.find("axis"), element.find("mimic")
    if element.get("type") in ("revolute", "prismatic"):
        assert numbers("limit") is not None, "URDF asks for limits"
    return ReadJoint(
        name=str(element.get("name")),
        type=str(element.get("type")),
        parent=str(element.find("parent").get("link")),  # type: ignore[union-attr]
        child=str(element.find("child").get("link")),  # type: ignore[union-attr]
        parent_from_child=origin(element),
        axis=np.array([1.0, 0.0, 0.0]) if axis is None else _floats(str(axis.get("xyz"))),
        limit=numbers("limit"),
        dynamics=numbers("dynamics"),
        mimic=None
        if mimic is None
        else (
            str(mimic.get("joint")),
            float(str(mimic.get("multiplier"))),
            float(str(mimic.get("offset"))),
        ),
    )
