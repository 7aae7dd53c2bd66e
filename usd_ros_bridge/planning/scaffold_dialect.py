"""Plan a vendor's layer: what vendors' attributes of joints say, in the attributes of another vendor.

REP 0158 section 4.2.2 calls this dialect mapping. Values are those of the plan, in SI units, so that each vendor's
attributes of a joint become the same: the tables of `solver_attributes` say how.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from usd_ros_bridge.model.physics import Dof, Joint
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.records import DofAxis
from usd_ros_bridge.model.scaffold import Decision, Dialect, Opinion, Property, Survey
from usd_ros_bridge.planning.kinematics.solver_attributes import (
    TABLE,
    SolverAttribute,
    motion_unit,
    si_factor,
)
from usd_ros_bridge.planning.kinematics.solver_attributes import Property as JointProperty
from usd_ros_bridge.planning.names import prim_name
from usd_ros_bridge.planning.stage_index import Units
from usd_ros_bridge.spatial.pose import IDENTITY_POSE
from usd_ros_bridge.spatial.transforms import pose_array

_VALUES: Final[Mapping[JointProperty, str]] = {
    "armature": "armature",
    "friction": "friction",
    "damping": "damping",
    "stiffness": "stiffness",
    "limit_stiffness": "limit_stiffness",
    "limit_damping": "limit_damping",
    "velocity_limit": "max_velocity",
}
"""Properties that are written, and the field of a degree of freedom that has them."""

_SCHEMAS: Final[Mapping[Dialect, str]] = {"newton": "NewtonJointAPI", "mjc": "MjcJointAPI", "physx": ""}
_TYPES: Final[Mapping[Dialect, str]] = {"newton": "float", "physx": "float", "mjc": "double"}
_MIMIC_SCHEMAS: Final[Mapping[Dialect, str]] = {"newton": "NewtonMimicAPI", "mjc": "MjcEqualityJointAPI"}
_DIGITS: Final = 9
"""Significant digits: what a float holds."""


def plan_dialect(
    plan: BridgePlan, survey: Survey, dialect: Dialect, *, followers: frozenset[str]
) -> tuple[list[Opinion], list[Decision]]:
    """Decide what the layer of a vendor says.

    Args:
        plan: With physics.
        survey: Of the same stage.
        dialect: The vendor.
        followers: Joints whose rule is written; not those that a gear moves.
    """
    assert plan.physics is not None
    writer = _Writer(plan.physics.joints, survey, dialect, followers)
    for joint in plan.physics.joints:
        if joint.path not in survey.closed:
            writer.write(joint)
    return writer.opinions, writer.decisions()


class _Writer:
    """The opinions of one vendor's layer, and the properties that have none there."""

    def __init__(
        self, joints: tuple[Joint, ...], survey: Survey, dialect: Dialect, followers: frozenset[str]
    ) -> None:
        self._joints, self._dialect, self._followers = joints, dialect, followers
        self._units = Units(
            meters=survey.meters,
            kilograms=survey.kilograms,
            seconds=1.0,
            world_from_stage=pose_array(IDENTITY_POSE),
        )
        self._missing: dict[str, list[str]] = {}
        self._written: dict[str, list[str]] = {}
        self.opinions: list[Opinion] = []

    def write(self, joint: Joint) -> None:
        """Write the opinions about a joint."""
        schemas: dict[str, None] = {}
        properties: dict[str, Property] = {}
        for dof in joint.dofs:
            for wanted, name in _VALUES.items():
                value = getattr(dof, name)
                if value == (math.inf if wanted == "velocity_limit" else 0.0):
                    continue
                found = self._attributes(wanted)
                if not found or (self._dialect != "physx" and not _alike(joint, name)):
                    self._missing.setdefault(wanted, []).append(joint.path)
                    continue
                self._written.setdefault(wanted, []).append(joint.path)
                for attribute in found:
                    instance = _instance(joint, dof)
                    authored = Property(
                        name=attribute.name.replace("{axis}", instance),
                        type_name=_TYPES[self._dialect],
                        value=_rounded(value / si_factor(attribute, dof.axis, self._units)),
                    )
                    properties[authored.name] = authored
                    schemas[_SCHEMAS[self._dialect] or _physx_schema(attribute.name, instance)] = None
            if dof.mimic is not None and joint.path in self._followers:
                schema, rule = self._mimic(dof)
                self._written.setdefault("mimic", []).append(joint.path)
                schemas[schema] = None
                properties.update({each.name: each for each in rule})
        if properties:
            self.opinions.append(
                Opinion(path=joint.path, schemas=tuple(schemas), properties=tuple(properties.values()))
            )

    def decisions(self) -> list[Decision]:
        """Return what was written, and what the vendor has no attribute for."""
        found = [
            Decision(outcome="written", subject=wanted, text=_named(paths), path=paths[0])
            for wanted, paths in self._written.items()
        ]
        for wanted, paths in self._missing.items():
            text = f"{_named(paths)}: {self._dialect} has no attribute for it"
            found.append(Decision(outcome="left out", subject=wanted, text=text, path=paths[0]))
        if not found:
            text = "no joint has a property that vendors have attributes for"
            found.append(Decision(outcome="left out", subject=self._dialect, text=text, path="/"))
        return found

    def _attributes(self, wanted: JointProperty) -> tuple[SolverAttribute, ...]:
        """Return the attributes to write: PhysX has both frictions, and an older name of what an axis has."""
        found = TABLE[wanted].get(self._dialect, ())
        return tuple(each for each in found if not each.name.startswith("physxJoint:"))

    def _mimic(self, dof: Dof) -> tuple[str, tuple[Property, ...]]:
        """Return the schema and the properties of a rule."""
        assert dof.mimic is not None
        rule = dof.mimic
        leader = self._joints[rule.joint]
        target, leader_axis = leader.path, leader.dofs[rule.dof].axis
        lengths = _length(dof.axis, self._units), _length(leader_axis, self._units)
        ratio = rule.multiplier * lengths[1] / lengths[0]
        if self._dialect == "physx":
            unit, leader_unit = (motion_unit(axis, self._units) for axis in (dof.axis, leader_axis))
            # Joints with one degree of freedom have it whatever the name of the instance is, which is one of rotations.
            instance = dof.axis if dof.axis.startswith("rot") else "rotX"
            prefix = f"physxMimicJoint:{instance}"
            return f"PhysxMimicJointAPI:{instance}", (
                Property(name=f"{prefix}:referenceJoint", type_name="rel", value=(target,)),
                self._number(f"{prefix}:gearing", -rule.multiplier * leader_unit / unit),
                self._number(f"{prefix}:offset", -rule.offset / unit),
            )
        if self._dialect == "mjc":
            powers = tuple(
                self._number(f"mjc:coef{power}", value * lengths[1] ** power / lengths[0])
                for power, value in enumerate(rule.polynomial, start=2)
            )
            return _MIMIC_SCHEMAS["mjc"], (
                Property(name="mjc:target", type_name="rel", value=(target,)),
                self._number("mjc:coef0", rule.offset / lengths[0]),
                self._number("mjc:coef1", ratio),
                *powers,
            )
        return _MIMIC_SCHEMAS["newton"], (
            Property(name="newton:mimicJoint", type_name="rel", value=(target,)),
            self._number("newton:mimicCoef0", rule.offset / motion_unit(dof.axis, self._units)),
            self._number("newton:mimicCoef1", ratio),
        )

    def _number(self, name: str, value: float) -> Property:
        return Property(name=name, type_name=_TYPES[self._dialect], value=_rounded(value))


def _length(axis: DofAxis, units: Units) -> float:
    return units.meters if axis.startswith("trans") else 1.0


def _alike(joint: Joint, name: str) -> bool:
    """Return whether all degrees of freedom have one value: Newton and MuJoCo have one attribute for all of them."""
    return len({getattr(dof, name) for dof in joint.dofs}) == 1


def _instance(joint: Joint, dof: Dof) -> str:
    """Return the instance of PhysX' schemas for a degree of freedom."""
    return {"revolute": "angular", "continuous": "angular", "prismatic": "linear"}.get(joint.type, dof.axis)


def _physx_schema(name: str, instance: str) -> str:
    prefix = name.partition(":")[0]
    return f"P{prefix[1:]}API:{instance}"


def _named(paths: list[str]) -> str:
    return ", ".join(dict.fromkeys(map(prim_name, paths)))


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
