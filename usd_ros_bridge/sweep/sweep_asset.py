"""The asset of a sweep: opened once, changed for each run on its session layer, and planned again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from usd_ros_bridge.api import load_plan, reread
from usd_ros_bridge.errors import BridgeError, OptionError, alternatives, quoted
from usd_ros_bridge.model.diagnostics import refuse
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import (
    OPTIONS,
    NodeOptions,
    VariantSelection,
    make_node_options,
    variant_selections,
)
from usd_ros_bridge.ros.backend_choice import wants_physics
from usd_ros_bridge.ros.interface_types import AmentCatalog
from usd_ros_bridge.runtime.tick_access import JointRows
from usd_ros_bridge.spatial.transforms import FloatArray, axis_rotation, quaternion_multiply
from usd_ros_bridge.sweep.distributions import Scalar
from usd_ros_bridge.sweep.randomization import Draws
from usd_ros_bridge.sweep.run_specs import RunSpec
from usd_ros_bridge.sweep.sweep_description import StartPose, Sweep
from usd_ros_bridge.usd.session import Override, OverrideTarget, PrimPlacement, StageSession

OWN_OPTIONS: Final = frozenset({"asset", "backend", "backend_options", "variants", "record", "duration"})
"""Options that a sweep has fields for, or that the runs decide."""


class PlannedRun(NamedTuple):
    """What a run simulates.

    Attributes:
        plan: The plan, with the changes of the run.
        drawn: Values of the randomisation by name.
    """

    plan: BridgePlan
    drawn: Mapping[str, Scalar]


class _Selection(NamedTuple):
    """What is the same for all runs with the same variants.

    Attributes:
        masses: Mass of each body, kg, by path.
        joints: Rows of joints.
        targets: Of each randomisation, by selector and attribute.
    """

    masses: Mapping[str, float]
    joints: JointRows
    targets: dict[tuple[str, str], tuple[OverrideTarget, ...]]


class SweepAsset:
    """The asset of a sweep, open. One thread at a time."""

    def __init__(self, sweep: Sweep) -> None:
        """Open the asset.

        Args:
            sweep: The sweep; references to parameters may be in it.

        Raises:
            BridgeError: The asset cannot be opened, or an option is not possible.
        """
        self.options = node_options(sweep.options)
        asset = sweep.asset
        if sweep.directory and "://" not in asset:
            asset = str(Path(sweep.directory, asset))
        physics = wants_physics(sweep.backend) or any(each.attribute == "mass" for each in sweep.randomize)
        self._opened: BridgePlan | None = load_plan(
            asset,
            read_options=self.options.read,
            plan_options=self.options.plan,
            catalog=AmentCatalog(),
            physics=physics,
        )
        self._overrides = StageSession(self._opened.stage).overrides()
        self._variants: tuple[VariantSelection, ...] = ()
        self._selections: dict[tuple[VariantSelection, ...], _Selection] = {}
        self._last: tuple[Any, BridgePlan] | None = None

    def close(self) -> None:
        """Close the stage. Idempotent."""
        self._opened = None
        self._last = None
        self._selections.clear()
        self.__dict__.pop("_overrides", None)

    def plan(self, sweep: Sweep, spec: RunSpec) -> PlannedRun:
        """Change the stage for a run, and plan it.

        Args:
            sweep: The sweep, with the parameters of the run in place of references.
            spec: The run.

        Raises:
            BridgeError: A variant, selector, joint or value is not possible.
        """
        selection = self._select(sweep)
        draws = Draws(spec.seed)
        overrides: list[Override] = []
        for row, each in enumerate(sweep.randomize):
            try:
                targets = self._targets(selection, each.select, each.attribute)
                overrides += draws.overrides(row, each, targets)
            except OptionError as error:
                raise OptionError(f"randomize[{row}]: {error}") from None
        placements = [_placement(prim, each) for prim, each in sweep.poses.items()]
        joints = _joint_paths(sweep.joints, selection.joints)
        asked = (self._variants, overrides, dict(sweep.poses), joints)
        if self._last is None or self._last[0] != asked:
            self._overrides.apply(overrides, placements=placements, joint_positions=joints)
            self._last = (asked, self._read())
        plan = self._last[1]
        options = self.options
        refuse(plan.asset, plan.diagnostics, strict=options.strict, degraded=options.degraded)
        return PlannedRun(plan, draws.drawn)

    def _select(self, sweep: Sweep) -> _Selection:
        """Select the variants of a run."""
        variants = variant_selections({name: str(each) for name, each in sweep.variants.items()})
        if variants != self._variants:
            self._last = None
            self._overrides.select_variants(variants)
            self._variants = variants
        selection = self._selections.get(variants)
        if selection is None:
            self._clear()
            plan = self._read()
            bodies = () if plan.physics is None else plan.physics.bodies
            masses = {body.path: body.inertial.mass for body in bodies}
            selection = self._selections[variants] = _Selection(masses, JointRows(plan), {})
        return selection

    def _targets(self, selection: _Selection, selector: str, attribute: str) -> tuple[OverrideTarget, ...]:
        found = selection.targets.get((selector, attribute))
        if found is None:
            self._clear()
            found = self._overrides.find(selector, attribute, selection.masses)
            selection.targets[selector, attribute] = found
        return found

    def _clear(self) -> None:
        """Drop the overrides of the last run: values without them are searched."""
        self._last = None
        self._overrides.clear()

    def _read(self) -> BridgePlan:
        if self._opened is None:
            raise BridgeError("the worker is closed")
        return reread(self._opened, self.options.plan, variants=self._variants)()


def node_options(given: Mapping[str, Any]) -> NodeOptions:
    """Return the options of a sweep; others have their defaults.

    Raises:
        OptionError: An option is unknown, is one that the sweep has a field for, or its value is not possible.
    """
    values = {name: option.value(option.parameter_default) for name, option in OPTIONS.items()}
    for name, value in given.items():
        if name in OWN_OPTIONS:
            raise OptionError(f"options.{name}: a sweep has a field of its own for it, or decides it")
        if name not in OPTIONS:
            raise OptionError(f"options: there is no option {quoted(name)}; {alternatives(name, OPTIONS)}")
        option = OPTIONS[name]
        try:
            fault = option.fault(value)
            values[name] = option.value(value)
        except (TypeError, ValueError, AttributeError) as error:
            fault = f"{quoted(value)} is not possible: {error}"
        if fault:
            raise OptionError(f"options.{name}: {fault}")
    return make_node_options(values, node_namespace="")


def _placement(prim: str, placement: StartPose) -> PrimPlacement:
    numbers = {"position": placement.position, "rpy": placement.rpy}
    for name, values in numbers.items():
        for value in values or ():
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise OptionError(f"poses.{prim}.{name}: {quoted(value)} is no number")
    return PrimPlacement(
        prim=prim,
        position=None if placement.position is None else np.array(placement.position, dtype=np.float64),
        rotation=None if placement.rpy is None else _rotation(*map(float, placement.rpy)),
    )


def _rotation(roll: float, pitch: float, yaw: float) -> FloatArray:
    """Return the quaternion of roll, pitch and yaw about the fixed axes x, y and z, as URDF has it."""
    about_x, about_y, about_z = (
        axis_rotation(axis, np.array(angle))
        for axis, angle in zip(np.eye(3), (roll, pitch, yaw), strict=True)
    )
    return quaternion_multiply(about_z, quaternion_multiply(about_y, about_x))


def _joint_paths(joints: Mapping[str, Any], rows: JointRows) -> dict[str, float]:
    """Return positions at the start by joint path."""
    paths = rows.plan.layout.dof_joints
    found: dict[str, float] = {}
    for name, position in joints.items():
        if isinstance(position, bool) or not isinstance(position, (int, float)):
            raise OptionError(f"joints.{name}: {quoted(position)} is no number")
        try:
            found[paths[rows.find(name)]] = float(position)
        except BridgeError as error:
            raise OptionError(f"joints: {error}") from None
    return found
