"""Actuators: MuJoCo's own as they are, and Newton's as drives of their joints."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.diagnostics import DiagnosticCollector, Reason, degraded
from usd_ros_bridge.model.physics import WORLD_BODY, Actuator, Body, Dof, Drive, Site, Tendon
from usd_ros_bridge.model.physics import Joint as SceneJoint
from usd_ros_bridge.model.physics_records import MjcActuatorRecord, NewtonActuatorRecord, PhysicsRecords
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.records import fallback
from usd_ros_bridge.planning.names import MAX_NAME, Nearest, prim_name
from usd_ros_bridge.planning.physics.scene_joints import GREATEST, bounded
from usd_ros_bridge.planning.physics.tendons import UnusableError, bounds, finite, finites
from usd_ros_bridge.planning.stage_index import Units

_KINDS: Final = {
    "dynamics": ("mjc:dynType", ("none", "integrator", "filter", "filterexact", "muscle", "user")),
    "gain": ("mjc:gainType", ("fixed", "affine", "muscle", "user")),
    "bias": ("mjc:biasType", ("none", "affine", "muscle", "user")),
}
_PARAMETERS: Final = {"dynamics": "mjc:dynPrm", "gain": "mjc:gainPrm", "bias": "mjc:biasPrm"}
_MOST: Final = 10
"""Parameters that MuJoCo keeps of each kind."""
_GEARS: Final = 6
_MOST_ACTIVATIONS: Final = 1000
"""Activations of one actuator: MuJoCo allocates whatever is asked for."""
_ALIKE: Final = 1e-6

Interface = Literal["", "position", "velocity", "effort"]


def plan_actuators(
    physics: PhysicsRecords,
    bodies: Sequence[Body],
    joints: Sequence[SceneJoint],
    sites: Sequence[Site],
    tendons: Sequence[Tendon],
    plan: BridgePlan,
    units: Units,
    findings: DiagnosticCollector,
) -> tuple[Actuator, ...]:
    """Return MuJoCo's actuators; one that cannot be used is left out.

    Args:
        physics: Records.
        bodies: Bodies of the scene.
        joints: Its joints.
        sites: Its sites.
        tendons: Its tendons.
        plan: Robots, and the names of their joints.
        units: The stage's units.
        findings: Collector of faults.
    """
    records = [record for record in physics.actuators if isinstance(record, MjcActuatorRecord)]
    _report_units([*records, *physics.tendons], units, findings)
    _report_keyframes(physics.keyframes, findings)
    planner = _Planner(bodies, joints, sites, tendons, plan, findings)
    actuators = []
    for record in records:
        try:
            actuators.append(planner.actuator(record))
        except UnusableError as error:
            findings.error(
                "1.3.actuator", record.path, f"{error}; the actuator is left out", attribute=error.attribute
            )
    return _named(_claimed(actuators, joints, findings), records, joints, plan, findings)


def _report_units(records: Sequence[Any], units: Units, findings: DiagnosticCollector) -> None:
    if records and (units.meters, units.kilograms) != (1.0, 1.0):
        findings.warning(
            "1.3.actuator.units",
            records[0].path,
            "the stage is not in metres and kilograms; attributes of MuJoCo's actuators and tendons are taken as SI",
            "author metersPerUnit = 1 and kilogramsPerUnit = 1",
        )


def _report_keyframes(paths: Sequence[str], findings: DiagnosticCollector) -> None:
    degraded(
        findings,
        dict.fromkeys(paths),
        "",
        "keyframes are not used: their numbers are in the order of another model",
        code="1.3.actuator.keyframe",
        remedy="author positions at the start on the joints (state:angular:physics:position)",
    )


# --- MuJoCo's -----------------------------------------------------------------------------------------------------


class _Planner:
    """Planner of actuators: joints, tendons, sites and bodies by path."""

    def __init__(
        self,
        bodies: Sequence[Body],
        joints: Sequence[SceneJoint],
        sites: Sequence[Site],
        tendons: Sequence[Tendon],
        plan: BridgePlan,
        findings: DiagnosticCollector,
    ) -> None:
        self._bodies, self._joints, self._sites, self._tendons = bodies, joints, sites, tendons
        named: tuple[tuple[str, Sequence[Body | Site | Tendon | SceneJoint]], ...] = (
            ("site", sites),
            ("body", bodies),
            ("tendon", tendons),
            ("joint", joints),
        )
        self._numbers = {
            each.path: (kind, number) for kind, found in named for number, each in enumerate(found)
        }
        self._site_numbers = {each.path: number for number, each in enumerate(sites)}
        self._findings = findings
        self._robot_at = Nearest({robot.path for robot in plan.robots})
        self._robots = {robot.path: number for number, robot in enumerate(plan.robots)}
        self._robot_of_joint = {
            joint.path: number for number, robot in enumerate(plan.robots) for joint in robot.joints
        }

    def actuator(self, record: MjcActuatorRecord) -> Actuator:
        """Return an actuator.

        Raises:
            UnusableError: It cannot be used.
        """
        kinds: dict[str, Any] = {name: self._kind(record, name) for name in _KINDS}
        gear = finites(record, "gear", "mjc:gear")[:_GEARS] or (1.0,)
        inherited = finite(record, "inherit_range", "mjc:inheritRange")
        activations = fallback(record, "activation_dimension")
        if activations > _MOST_ACTIVATIONS:
            raise UnusableError(f"{activations} activations are more than {_MOST_ACTIVATIONS}", "mjc:actDim")
        made = Actuator(
            path=record.path,
            gear=gear + (0.0,) * (_GEARS - len(gear)),
            crank_length=finite(record, "crank_length", "mjc:crankLength"),
            control_range=bounds(record, "control_limited", "control_min", "control_max", "mjc:ctrlRange"),
            force_range=bounds(record, "force_limited", "force_min", "force_max", "mjc:forceRange"),
            activation_range=bounds(
                record, "activation_limited", "activation_min", "activation_max", "mjc:actRange"
            ),
            length_range=_length_range(record),
            inherit_range=max(0.0, inherited),
            activation_dimension=activations,
            acts_early=fallback(record, "acts_early"),
            group=fallback(record, "group"),
            **kinds,
            **self._transmission(record),
        )
        interface, factor = self._interface(made)
        return replace(
            made, interface=interface, control_per_command=factor, robot=self._robot(record.path, made)
        )

    def _kind(self, record: MjcActuatorRecord, name: str) -> tuple[str, tuple[float, ...]]:
        attribute, known = _KINDS[name]
        kind = fallback(record, name)
        if kind not in known:
            raise UnusableError(f"{quoted(kind)} is none of {', '.join(known)}", attribute)
        if kind == "user":
            self._findings.warning(
                "1.3.actuator.user",
                record.path,
                f"the {name} belongs to a callback, and there is none: MuJoCo takes its own",
                f"use one of {', '.join(known[:-1])}",
                attribute=attribute,
            )
        values = finites(record, f"{name}_parameters", _PARAMETERS[name])
        if any(values[_MOST:]):
            self._findings.warning(
                "1.3.actuator.parameters",
                record.path,
                f"MuJoCo takes {_MOST} parameters, and {len(values)} are authored; the rest is left out",
                attribute=_PARAMETERS[name],
            )
        return kind, values[:_MOST]

    def _transmission(self, record: MjcActuatorRecord) -> dict[str, Any]:
        targets = record.target or ()
        if not targets:
            raise UnusableError("it acts on nothing", "mjc:target")
        if len(targets) > 1:
            self._findings.warning(
                "1.3.actuator.target",
                record.path,
                f"of {len(targets)} targets the first counts",
                attribute="mjc:target",
            )
        kind, number = self._numbers.get(targets[0], ("", -1))
        if not kind:
            raise UnusableError(
                f"{targets[0]} is no joint, tendon, site or body that is simulated", "mjc:target"
            )
        if kind == "joint":
            joint = self._joints[number]
            if len(joint.dofs) != 1 and joint.type != "spherical":
                raise UnusableError(f"{joint.path} has {len(joint.dofs)} degrees of freedom", "mjc:target")
            in_parent = fallback(record, "joint_in_parent")
            return {"transmission": "joint_in_parent" if in_parent else "joint", "joint": number}
        if kind != "site":
            return {"transmission": kind, kind: number}
        slider = self._other_site(record, "slider_site", "mjc:sliderSite")
        reference = self._other_site(record, "reference_site", "mjc:refSite")
        return {
            "transmission": "site" if slider < 0 else "slider_crank",
            "site": number,
            "other_site": reference if slider < 0 else slider,
        }

    def _other_site(self, record: MjcActuatorRecord, field: str, attribute: str) -> int:
        targets = getattr(record, field)
        if not targets:
            return -1
        number = self._site_numbers.get(targets[0], -1)
        if number < 0:
            raise UnusableError(f"{targets[0]} is no site", attribute)
        return number

    def _interface(self, actuator: Actuator) -> tuple[Interface, float]:
        """Return what its gain and bias stand for, and the control for a command of 1."""
        dofs = self._joints[actuator.joint].dofs if actuator.joint >= 0 else ()
        gear, gain = actuator.gear[0], (*actuator.gain[1], 0.0)[0]
        if (
            len(dofs) != 1
            or dofs[0].mimic is not None
            or actuator.dynamics[0] != "none"
            or actuator.gain[0] != "fixed"
            or not gear
            or not gain
        ):
            return "", 1.0
        kind, values = actuator.bias
        constant, position, velocity = (*values, 0.0, 0.0, 0.0)[:3] if kind == "affine" else (0.0, 0.0, 0.0)
        if kind not in ("none", "affine") or constant:
            return "", 1.0
        if not position and not velocity:
            return "effort", 1.0 / (gear * gain)
        if math.isclose(position, -gain, rel_tol=_ALIKE):
            return "position", gear
        if not position and math.isclose(velocity, -gain, rel_tol=_ALIKE):
            return "velocity", gear
        return "", 1.0

    def _robot(self, path: str, actuator: Actuator) -> int:
        """Return the robot that it belongs to: the one that it stands below, else the one that it acts on."""
        robot = self._robots.get(self._robot_at(path), -1)
        if robot >= 0:
            return robot
        if actuator.joint >= 0:
            return self._robot_of_joint.get(self._joints[actuator.joint].path, -1)
        if actuator.tendon >= 0:
            tendon = self._tendons[actuator.tendon]
            if tendon.joints:
                return self._robot_of_joint.get(self._joints[tendon.joints[0][0]].path, -1)
            sites = [self._sites[point.site] for point in tendon.points if point.site >= 0]
            return next((self._bodies[site.body].robot for site in sites if site.body != WORLD_BODY), -1)
        body = self._sites[actuator.site].body if actuator.site >= 0 else actuator.body
        return -1 if body == WORLD_BODY else self._bodies[body].robot


def _length_range(record: MjcActuatorRecord) -> tuple[float, float] | None:
    least, most = (finite(record, f"length_{side}", f"mjc:lengthRange:{side}") for side in ("min", "max"))
    return (least, most) if least < most else None


def _claimed(
    actuators: Iterable[Actuator], joints: Sequence[SceneJoint], findings: DiagnosticCollector
) -> list[Actuator]:
    """Assign commands of a joint to one receiver of each kind: its drive, else the first actuator."""
    takers: dict[tuple[int, str], str] = {}
    for number, joint in enumerate(joints):
        drive = joint.dofs[0].drive if joint.dofs else None
        if drive is not None and drive.stiffness > 0.0:
            takers[number, "position"] = "its drive"
        if drive is not None and drive.damping > 0.0:
            takers[number, "velocity"] = "its drive"
    result = []
    for each in actuators:
        actuator = each
        if actuator.interface:
            taker = takers.setdefault((actuator.joint, actuator.interface), actuator.path)
            if taker != actuator.path:
                findings.info(
                    "1.3.actuator.shared",
                    actuator.path,
                    f"a {actuator.interface} that is commanded of {joints[actuator.joint].path} goes to {taker}; "
                    "this actuator follows its own control alone",
                    "command it by its own name",
                )
                actuator = replace(actuator, interface="", control_per_command=1.0)
        result.append(actuator)
    return result


# --- Names --------------------------------------------------------------------------------------------------------


def _named(
    actuators: Sequence[Actuator],
    records: Iterable[MjcActuatorRecord],
    joints: Sequence[SceneJoint],
    plan: BridgePlan,
    findings: DiagnosticCollector,
) -> tuple[Actuator, ...]:
    """Return actuators with the names that messages reach them by: display names first, then names of prims."""
    shown = {record.path: record.display_name for record in records}
    owners = _joint_names(actuators, joints, plan)
    names: dict[str, list[str]] = {actuator.path: [] for actuator in actuators}
    for wanted in (lambda path: shown[path], prim_name):
        for actuator in actuators:
            name = wanted(actuator.path)
            if not name or not name.isprintable() or len(name) > MAX_NAME or name in names[actuator.path]:
                continue
            owner = owners.setdefault((actuator.robot, name), actuator.path)
            if owner == actuator.path:
                names[actuator.path].append(name)
            elif not names[actuator.path] and not _is_own_joint(actuator, owner, joints):
                findings.info(
                    "1.3.actuator.name",
                    actuator.path,
                    f"in messages {quoted(name)} is {owner}",
                    "give the actuator another name, or command it by its prim path",
                )
    for actuator in actuators:
        if actuator.robot < 0:
            findings.warning(
                "1.3.actuator.robot",
                actuator.path,
                "the actuator belongs to no robot: no message commands it",
                "move it below a robot's context",
            )
    return tuple(replace(each, names=(*names[each.path], each.path)) for each in actuators)


def _joint_names(
    actuators: Sequence[Actuator], joints: Sequence[SceneJoint], plan: BridgePlan
) -> dict[tuple[int, str], str]:
    """Return the joints that take commands, by robot and name: one whose actuators all have none takes none."""
    numbers = {joint.path: number for number, joint in enumerate(joints)}
    actuated = {actuator.joint for actuator in actuators if actuator.joint >= 0}
    commanded = {actuator.joint for actuator in actuators if actuator.interface}
    found = {}
    for number, robot in enumerate(plan.robots):
        for joint in robot.joints:
            scene_joint = numbers.get(joint.path, -1)
            driven = scene_joint >= 0 and any(dof.drive is not None for dof in joints[scene_joint].dofs)
            if scene_joint in actuated - commanded and not driven:
                continue
            found.update({(number, dof.name): joint.path for dof in joint.dofs})
    return found


def _is_own_joint(actuator: Actuator, owner: str, joints: Sequence[SceneJoint]) -> bool:
    """Return whether commands of a joint reach an actuator that has the joint's name."""
    return bool(actuator.interface) and joints[actuator.joint].path == owner


# --- Newton's -----------------------------------------------------------------------------------------------------


def drive_joints(
    physics: PhysicsRecords, joints: tuple[SceneJoint, ...], units: Units, findings: DiagnosticCollector
) -> tuple[SceneJoint, ...]:
    """Return joints with the drives that NewtonActuator prims stand for.

    Args:
        physics: Records.
        joints: Joints of the scene.
        units: The stage's units.
        findings: Collector of faults.
    """
    records = [record for record in physics.actuators if isinstance(record, NewtonActuatorRecord)]
    if not records:
        return joints
    numbers = {joint.path: number for number, joint in enumerate(joints)}
    driven = list(joints)
    for record in records:
        try:
            number = _newton_target(record, numbers, joints, findings)
            driven[number] = replace(
                joints[number], dofs=(_driven(record, driven[number].dofs[0], units, findings),)
            )
        except UnusableError as error:
            findings.error(
                "1.3.actuator", record.path, f"{error}; the actuator is left out", attribute=error.attribute
            )
    return tuple(driven)


def _newton_target(
    record: NewtonActuatorRecord,
    numbers: dict[str, int],
    joints: Sequence[SceneJoint],
    findings: DiagnosticCollector,
) -> int:
    targets = record.target or ()
    if not targets:
        raise UnusableError("it drives nothing", "newton:targets")
    if len(targets) > 1:
        findings.warning(
            "1.3.actuator.target",
            record.path,
            f"of {len(targets)} targets the first counts",
            attribute="newton:targets",
        )
    number = numbers.get(targets[0])
    if number is None or joints[number].type not in ("revolute", "continuous", "prismatic"):
        raise UnusableError(
            f"{targets[0]} is no revolute or prismatic joint that is simulated", "newton:targets"
        )
    return number


def _driven(record: NewtonActuatorRecord, dof: Dof, units: Units, findings: DiagnosticCollector) -> Dof:
    """Return a degree of freedom with its drive: `kp * (target - q) + kd * (target velocity - v)`, bounded."""
    # A drive without gains has no force: assets apply DriveAPI to joints that an actuator drives.
    if dof.drive is not None and (dof.drive.stiffness or dof.drive.damping):
        raise UnusableError("the joint has a drive already", "newton:targets")
    if dof.mimic is not None:
        raise UnusableError("the joint follows another one", "newton:targets")
    if not {"NewtonPDControlAPI", "NewtonPIDControlAPI"} & set(record.applied):
        raise UnusableError("it has no control law that is simulated: PD or PID")
    _report_unmapped(record, findings)
    force = units.kilograms * units.meters ** (2 if dof.axis.startswith("rot") else 1)
    gain = force if dof.axis.startswith("rot") else units.kilograms
    stiffness = _gain(record, "stiffness", "newton:kp", GREATEST / gain, findings)
    damping = _gain(record, "damping", "newton:kd", GREATEST / gain, findings)
    constant = finite(record, "constant_effort", "newton:constEffort")
    bound = _bound(record) * force
    return replace(
        dof,
        max_effort=min(dof.max_effort, bound),
        drive=Drive(
            stiffness=stiffness * gain,
            damping=damping * gain,
            constant_effort=constant * force,
            max_force=bound,
        ),
    )


def _gain(
    record: NewtonActuatorRecord, field: str, name: str, most: float, findings: DiagnosticCollector
) -> float:
    authored = float(fallback(record, field))
    used = bounded(authored, most)
    if used != authored:
        findings.error(
            "1.3.actuator",
            record.path,
            f"{quoted(authored)} cannot be used; {used:.6g} is used",
            f"author a number from 0 to {most:.6g}",
            attribute=name,
        )
    return used


def _bound(record: NewtonActuatorRecord) -> float:
    """Return the greatest effort that any of the clamps leaves."""
    found = [math.inf]
    if "NewtonMaxEffortClampingAPI" in record.applied:
        found.append(fallback(record, "max_effort"))
    if "NewtonDCMotorClampingAPI" in record.applied:
        found += [fallback(record, "max_motor_effort"), fallback(record, "stall_effort")]
    if "NewtonPositionBasedClampingAPI" in record.applied and record.lookup_efforts:
        found.append(max(record.lookup_efforts))
    bound = min(found)
    if not bound >= 0.0:
        raise UnusableError(f"a bound of {quoted(bound)} cannot be used", "newton:maxEffort")
    return bound


def _report_unmapped(record: NewtonActuatorRecord, findings: DiagnosticCollector) -> None:
    """Report what no drive has: integrals, delays, and clamps that depend on speed or position."""
    unmapped: tuple[tuple[str, bool, str, object, str, Reason], ...] = (
        (
            "NewtonPIDControlAPI",
            bool(fallback(record, "integral")),
            "newton:ki",
            record.integral,
            "the integral term is left out",
            "not implemented",
        ),
        (
            "NewtonActuatorDelayAPI",
            fallback(record, "delay_steps") > 0,
            "newton:delaySteps",
            record.delay_steps,
            "commands act without delay",
            "not implemented",
        ),
        (
            "NewtonDCMotorClampingAPI",
            math.isfinite(fallback(record, "velocity_limit")),
            "newton:velocityLimit",
            record.velocity_limit,
            "the effort is bounded alike at every speed",
            "approximated",
        ),
        (
            "NewtonPositionBasedClampingAPI",
            len(set(fallback(record, "lookup_efforts"))) > 1,
            "newton:lookupEfforts",
            record.lookup_efforts,
            "the effort is bounded alike at every position, by the greatest of the table",
            "approximated",
        ),
    )
    for api, is_used, attribute, value, instead, reason in unmapped:
        if api in record.applied and is_used:
            prims = {record.path: value}
            degraded(findings, prims, attribute, instead, reason=reason, code="1.3.actuator.newton")
