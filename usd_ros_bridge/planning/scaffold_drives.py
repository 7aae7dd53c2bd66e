"""Plan drives: UsdPhysics drives for the joints of a robot that have none, from what each joint moves and carries.

The rule: a drive is a spring and a damper on the inertia I that the joint moves, with the natural frequency w and the
damping ratio z that the caller names: stiffness `I w^2`, damping `2 z I w`. I is counted so large that the weight on
the joint moves it by `DROOP` at most, and so large that the damping and the friction that the joint has of its own
matter little. They are force drives: these mean the same to every engine in every pose.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from usd_ros_bridge.model.physics import Dof, PhysicsScene
from usd_ros_bridge.model.plan import BridgePlan, DofPlan, JointPlan
from usd_ros_bridge.model.scaffold import (
    Decision,
    Opinion,
    Outcome,
    Property,
    ScaffoldRequest,
    Survey,
    free_name,
)
from usd_ros_bridge.planning.drive_wheels import (
    NoDriveError,
    find_drive,
    is_passive_wheel,
    is_steering,
    is_wheel,
    names_of,
    wheel_radius,
)
from usd_ros_bridge.planning.joint_loads import JointLoad, joint_loads, sliding_colliders, standing_loads
from usd_ros_bridge.planning.names import prim_name
from usd_ros_bridge.planning.robot_scaffold import is_finger

DROOP = {"rot": 0.005, "trans": 0.001}
"""rad, m: how far the weight of what is outboard may pull a joint from its target."""
STANDING_DROOP = {"rot": 0.02, "trans": 0.004}
"""The same for the weight of the robot on a leg."""
GRIP_SHARE = 0.1
"""Share of a finger's range at which it grips with its full effort."""
SPEED_DROOP = 0.1
"""rad/s: how far the greatest traction, the weight on a wheel, may slow it down."""
TRACTION = 1.5
"""Effort of a wheel without a limit, as a share of the weight on it times its radius: what a tyre with a friction of 1
can use, and half as much again, as accelerating shifts the load. More makes a robot jump."""
OWN_DAMPING = {"wheel": 100.0, "held": 10.0}
"""How much stronger a drive's damping is than the joint's own: a wheel loses 1 % of its speed to it."""
TYRE_FRICTION = 1.0
"""Friction of driven wheels without a material: Gazebo's default, which URDFs are written for. PhysX's is 0.5."""
NOMINAL_SPEED = 1.0
"""m/s: a wheel without limits of speed and effort overcomes its own damping up to there."""
LEAST_INERTIA = 1e-6
"""kg m^2, kg: of a joint that moves nothing."""
_DEGREES = 180.0 / math.pi
_LEAST_SHOWN = 1e-3
_DIGITS = 6
"""Significant digits of gains: a layer is there to be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gains:
    stiffness: float
    damping: float
    limit: float = math.inf
    """Effort, N m or N."""


def _turns(dof: DofPlan | Dof) -> bool:
    return dof.axis.startswith("rot")


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


class RobotDrives:
    """The drives of one robot.

    Attributes:
        opinions: What the layer says about them.
        decisions: Those taken so far.
    """

    def __init__(self, plan: BridgePlan, index: int, survey: Survey, request: ScaffoldRequest) -> None:
        """Store the robot; `decide` fills the lists.

        Args:
            plan: The asset's, with physics, its bases as they will be.
            index: Of the robot in it.
            survey: Of the same stage.
            request: Natural frequency and damping ratio.
        """
        assert plan.physics is not None
        self._plan, self._robot, self._survey = plan, plan.robots[index], survey
        self._scene: PhysicsScene = plan.physics
        self._frequency = 2.0 * math.pi * request.natural_frequency
        self._gravity = math.hypot(*self._scene.gravity)
        self._request = request
        self._numbers = {joint.path: number for number, joint in enumerate(self._scene.joints)}
        bodies = [number for number, body in enumerate(self._scene.bodies) if body.robot == index]
        self._bodies = bodies
        self._mass = sum(self._scene.bodies[body].inertial.mass for body in bodies)
        self._loads = joint_loads(self._scene)
        wheels = [
            self._numbers[j.path] for j in self._robot.joints if j.path in self._numbers and is_wheel(j)
        ]
        self._standing = standing_loads(self._scene, bodies, wheels) if self._robot.base >= 0 else {}
        self.opinions: list[Opinion] = []
        self.decisions: list[Decision] = []

    def decide(self) -> None:
        """Decide everything."""
        actuated = {each.joint for each in self._scene.actuators}
        chosen: list[JointPlan] = []
        kept: dict[str, list[JointPlan]] = {}
        wheels, idle = self._wheels()
        turning = []
        for joint in self._robot.joints:
            if not joint.dofs:
                continue
            number = self._numbers.get(joint.path, -1)
            reason = self._reason(joint, number, actuated) or (
                "no wheel of the drive" if joint.path in idle else ""
            )
            if reason:
                kept.setdefault(reason, []).append(joint)
            else:
                chosen.append(joint)
        for reason, joints in kept.items():
            self._say("left out", f"{names_of(joints)}: {reason}", self._robot.path)
        if chosen:
            self._explain(chosen)
        for joint in chosen:
            if joint.path in wheels or (is_wheel(joint) and not is_steering(joint) and _is_endless(joint)):
                turning.append(joint)
            else:
                self._hold(joint)
        for joint in turning:
            self._turn(joint, wheels.get(joint.path), max(1, len(wheels)), len(turning))
        if wheels and chosen and self._robot.base >= 0:
            self._slide([self._numbers[path] for path in wheels if path in self._numbers])

    def _reason(self, joint: JointPlan, number: int, actuated: set[int]) -> str:
        """Return why a joint gets no drive, "" where it gets one."""
        if number < 0:
            return "not in the physics scene"
        dofs = self._scene.joints[number].dofs
        if number in actuated or any(dof.drive is not None for dof in dofs):
            return "a drive or actuator of the asset"
        if all(dof.mimic is not None for dof in dofs):
            return "mimic joints follow another one"
        if joint.path in self._survey.closed:
            return "below an instance, where nothing can be authored"
        if len(dofs) > 1:
            return "several degrees of freedom"
        if number not in self._loads:
            return "closes a loop"
        return "casters and other passive wheels" if is_passive_wheel(joint) else ""

    def _wheels(self) -> tuple[dict[str, float], set[str]]:
        """Return the radius of the wheels of a differential drive by joint, and the paths of its other wheels."""
        try:
            drive = find_drive(self._plan, self._robot)
        except NoDriveError:
            drive = None
        if drive is None:
            return {}, set()
        driven = {joint.path: drive.radius for joint in (*drive.left, *drive.right)}
        idle = {joint.path for joint in self._robot.joints if joint.dofs and is_wheel(joint)} - driven.keys()
        return driven, idle

    def _explain(self, joints: Sequence[JointPlan]) -> None:
        frequency, ratio = self._request.natural_frequency, self._request.damping_ratio
        self._say(
            "written",
            f"{len(joints)} force drives: I w^2 and 2 z I w, with w = 2 pi {frequency:g} Hz, z = {ratio:g} and the "
            f"inertia I that the joint moves, or more, so that weight moves it by {DROOP['rot']:g} rad or "
            f"{1e3 * DROOP['trans']:g} mm at most",
            self._robot.path,
        )
        if self._standing:
            self._say(
                "written",
                f"legs carry the robot, {self._mass:.4g} kg, on half of them, and give way by "
                f"{STANDING_DROOP['rot']:g} rad at most",
                self._robot.path,
            )

    # --- Drives ---------------------------------------------------------------------------------------------------

    def _hold(self, joint: JointPlan) -> None:
        """Write a drive that holds a position."""
        number, dof = self._numbers[joint.path], joint.dofs[0]
        load, limit = self._loads[number], dof.max_effort
        kind = "rot" if _turns(dof) else "trans"
        bound = limit if 0.0 < limit < math.inf else math.inf
        # What is beyond the effort limit, no stiffness holds.
        stiffness = max(
            max(load.inertia, LEAST_INERTIA) * self._frequency**2,
            min(load.weight + self._dof(number).friction, bound) / DROOP[kind],
            0.5 * OWN_DAMPING["held"] * self._dof(number).damping * self._frequency,
            min(self._standing.get(number, 0.0), bound) / STANDING_DROOP[kind],
        )
        if is_finger(joint) and max(bound, dof.upper - dof.lower) < math.inf:
            stiffness = max(stiffness, bound / (GRIP_SHARE * max(dof.upper - dof.lower, 1e-3)))
        damping = 2.0 * self._request.damping_ratio * stiffness / self._frequency
        target = min(max(dof.position, dof.lower), dof.upper)
        self._write(joint, _Gains(stiffness=stiffness, damping=damping, limit=limit or math.inf), target)
        unit = "N m" if _turns(dof) else "N"
        carried = f", carries up to {load.weight:.3g} {unit}" if load.weight >= _LEAST_SHOWN else ""
        if number in self._standing:
            carried += f", or {self._standing[number]:.3g} {unit} of the robot"
        self._report(joint, load, f"stiffness {stiffness:.4g}, damping {damping:.4g}", carried)
        if abs(target - dof.position) > 1e-6:
            self._say(
                "note",
                f"{joint.name} starts at {dof.position:.4g}, outside of its limits: its drive holds {target:.4g}",
                joint.path,
            )

    def _turn(self, joint: JointPlan, radius: float | None, wheels: int, turning: int) -> None:
        """Write a drive that holds a speed: of a wheel, which moves its share of the robot.

        Args:
            joint: Of the wheel.
            radius: m, None where the wheel is none of a differential drive.
            wheels: Among how many the robot's inertia is shared.
            turning: How many wheels get such drives: they carry the robot.
        """
        number = self._numbers[joint.path]
        load, own = self._loads[number], self._dof(number)
        radius = radius if radius is not None else wheel_radius(self._plan, joint) or 0.0
        inertia = max(load.inertia + self._mass / wheels * radius**2, LEAST_INERTIA)
        limit = joint.dofs[0].max_effort or math.inf
        traction = min(self._mass / wheels * self._gravity * radius, limit)
        damping = max(
            2.0 * self._request.damping_ratio * inertia * self._frequency,
            (traction + own.friction) / SPEED_DROOP,
            OWN_DAMPING["wheel"] * own.damping,
        )
        ours = ""
        if limit == math.inf and self._robot.base >= 0 and traction > 0.0:
            limit = TRACTION * self._mass / turning * self._gravity * radius
            ours = f"at most {limit:.4g} N m, {TRACTION:g} times what its tyre can use, as the asset has no limit"
            limit += own.friction + own.damping * min(joint.dofs[0].max_velocity, NOMINAL_SPEED / radius)
        self._write(joint, _Gains(stiffness=0.0, damping=damping, limit=limit), 0.0)
        shown = JointLoad(inertia=inertia, weight=0.0, mass=load.mass)
        self._report(
            joint, shown, f"a velocity drive, damping {damping:.4g}", " with its share of the robot", ours
        )

    def _dof(self, number: int) -> Dof:
        """Return the degree of freedom of a joint in the scene, with its passive damping and friction."""
        return self._scene.joints[number].dofs[0]

    def _slide(self, wheels: Sequence[int]) -> None:
        """Let what a robot on wheels drags over the ground slide: balls and casters that a model holds fast.

        Args:
            wheels: Joints of the driven ones.
        """
        dragged = [
            each
            for each in sliding_colliders(self._scene, self._bodies, wheels)
            if each.material is None and each.path not in self._survey.closed
        ]
        if not dragged:
            return
        taken = self._survey.children.get(self._robot.path, frozenset())
        path = f"{self._robot.path}/{free_name('SlidingMaterial', taken)}"
        frictions = ("physics:dynamicFriction", "physics:staticFriction")
        # A mean with the ground's friction would brake.
        least = Property(
            name="physxMaterial:frictionCombineMode", type_name="token", value="min", uniform=True
        )
        self.opinions.append(
            Opinion(
                path=path,
                define="Material",
                schemas=("PhysicsMaterialAPI", "PhysxMaterialAPI"),
                properties=(
                    *(Property(name=each, type_name="float", value=0.0) for each in frictions),
                    least,
                ),
            )
        )
        binding = Property(name="material:binding:physics", type_name="rel", value=(path,))
        self.opinions += [
            Opinion(path=each.path, schemas=("MaterialBindingAPI",), properties=(binding,))
            for each in dragged
        ]
        owners = dict.fromkeys(prim_name(self._scene.bodies[each.body].path) for each in dragged)
        text = f"{', '.join(owners)}: no friction, as the base drags them over the ground"
        self._say("written", text, path)

    def _report(self, joint: JointPlan, load: JointLoad, gains: str, carried: str, ours: str = "") -> None:
        dof = joint.dofs[0]
        turns, limit = _turns(dof), dof.max_effort
        effort = "N m" if turns else "N"
        bound = ours or "no effort limit in the asset"
        if limit == 0.0 and not ours:
            bound = "its effort limit of 0 is taken as none"
        elif 0.0 < limit < math.inf:
            bound = f"at most {limit:.4g} {effort}"
        if dof.max_velocity < math.inf:
            bound += f" and {dof.max_velocity:.4g} {'rad/s' if turns else 'm/s'}"
        inertia = f"{load.inertia:.3g} {'kg m^2' if turns else 'kg'}"
        self._say("written", f"{joint.name}: {gains} (SI); {bound}; moves {inertia}{carried}", joint.path)

    def _write(self, joint: JointPlan, gains: _Gains, target: float) -> None:
        dof, survey = joint.dofs[0], self._survey
        turns = _turns(dof)
        instance = {"revolute": "angular", "continuous": "angular", "prismatic": "linear"}.get(
            joint.type, dof.axis
        )
        effort = survey.kilograms * survey.meters ** (2 if turns else 1)
        gain = effort * _DEGREES if turns else survey.kilograms
        motion = _DEGREES if turns else 1.0 / survey.meters
        values: list[tuple[str, str, object]] = [
            ("damping", "float", _rounded(gains.damping / gain)),
            ("maxForce", "float", _rounded(gains.limit / effort)),
            ("stiffness", "float", _rounded(gains.stiffness / gain)),
            ("type", "token", "force"),
        ]
        if gains.limit == dof.max_effort == math.inf:
            del values[1]
        if gains.stiffness and abs(target) > 1e-9:
            values.insert(-1, ("targetPosition", "float", _rounded(target * motion)))
        self.opinions.append(
            Opinion(
                path=joint.path,
                schemas=(f"PhysicsDriveAPI:{instance}",),
                properties=tuple(
                    Property(
                        name=f"drive:{instance}:physics:{name}",
                        type_name=type_name,
                        value=value,
                        uniform=name == "type",
                    )
                    for name, type_name, value in values
                ),
            )
        )

    def _say(self, outcome: Outcome, text: str, path: str) -> None:
        self.decisions.append(Decision(outcome=outcome, subject="drives", text=text, path=path))


def _is_endless(joint: JointPlan) -> bool:
    return len(joint.dofs) == 1 and joint.dofs[0].upper - joint.dofs[0].lower > 2.0 * math.pi


def plan_drives(
    plan: BridgePlan, survey: Survey, request: ScaffoldRequest
) -> tuple[list[Opinion], list[Decision]]:
    """Decide about the drives of all robots.

    Args:
        plan: With physics, the robots' bases as they will be.
        survey: Of the same stage.
        request: Natural frequency and damping ratio.
    """
    opinions: list[Opinion] = []
    decisions: list[Decision] = []
    for index, robot in enumerate(plan.robots):
        drives = RobotDrives(plan, index, survey, request)
        if robot.path not in survey.closed:
            drives.decide()
        opinions += drives.opinions
        decisions += drives.decisions
    return opinions, decisions
