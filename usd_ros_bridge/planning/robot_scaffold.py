"""Plan a scaffold: the REP 0158 layer (contexts, names, interfaces, controllers, frames) of an asset that has none."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from usd_ros_bridge.model.controller_schemas import (
    DIFF_DRIVE,
    JOINT_STATE_BROADCASTER,
    JOINT_TRAJECTORY_CONTROLLER,
)
from usd_ros_bridge.model.message_types import (
    FOLLOW_JOINT_TRAJECTORY,
    JOINT_STATE,
    JOINT_TRAJECTORY,
    ODOMETRY,
    PARALLEL_GRIPPER_COMMAND,
    TWIST,
)
from usd_ros_bridge.model.physics_records import MASSLESS_BODIES
from usd_ros_bridge.model.plan import BridgePlan, JointPlan, RobotPlan
from usd_ros_bridge.model.records import (
    ActionRecord,
    ContextRecord,
    DiffDriveRecord,
    FrameRecord,
    JointStateBroadcasterRecord,
    JointTrajectoryRecord,
    Record,
    TopicRecord,
    attribute_fields,
)
from usd_ros_bridge.model.scaffold import (
    CONVERTERS,
    Decision,
    DriveLimits,
    Opinion,
    Outcome,
    PlainXform,
    Property,
    Scaffold,
    Survey,
    free_name,
)
from usd_ros_bridge.planning import names
from usd_ros_bridge.planning.drive_wheels import (
    DriveGeometry,
    NoDriveError,
    driven_joints,
    find_drive,
    is_passive_wheel,
    is_wheel,
    names_of,
)
from usd_ros_bridge.planning.names import holds_geometry, is_below, parent_path, prim_name

_ROOT_LINK = re.compile(r"(?<![a-z])(link|base|footprint|frame|root|body)(?![a-z])", re.IGNORECASE)
_CORE = ("ros:context:", "ros:topic:", "ros:service:", "ros:action:", "ros:frame:")
"""Schemas whose attributes assets author without `uniform`, as the REP shows them."""


def in_tree_order(robot: RobotPlan) -> list[JointPlan]:
    """Return a robot's joints from the base outwards, one limb after another, whatever order the asset has them in."""
    below: dict[str, list[int]] = defaultdict(list)
    children = {edge.child_path for edge in robot.edges}
    for number, edge in enumerate(robot.edges):
        below[edge.parent_path].append(number)
    tops = dict.fromkeys(edge.parent_path for edge in robot.edges if edge.parent_path not in children)
    found: list[JointPlan] = []
    pending = [number for top in reversed(tops) for number in reversed(below[top])]
    while pending:
        edge = robot.edges[pending.pop()]
        found += [robot.joints[joint] for joint in edge.joints]
        pending += reversed(below[edge.child_path])
    return found


def is_link(xform: PlainXform, bodies: set[str]) -> bool:
    """Return whether an Xform becomes a frame: in a body, or above one under the name of a link."""
    if holds_geometry(prim_name(xform.path)):
        return False
    parent = parent_path(xform.path)
    while parent:
        if parent in bodies:
            return True
        parent = parent_path(parent)
    above = any(is_below(body, xform.path) for body in bodies)
    return above and bool(_ROOT_LINK.search(prim_name(xform.path)))


def properties_of(record: type[Record], **values: Any) -> tuple[Property, ...]:
    """Return properties by the fields of the record that reads them, in its order."""
    specs = dict(attribute_fields(record))
    unknown = values.keys() - specs.keys()
    assert not unknown, unknown
    return tuple(
        Property(
            name=spec.name,
            type_name=spec.type_name,
            value=values[field],
            uniform=spec.name.startswith("ros:") and not spec.name.startswith(_CORE),
        )
        for field, spec in specs.items()
        if field in values
    )


def converter_of(survey: Survey, robot: RobotPlan) -> str:
    """Return the converter that made a robot of a format in which links may weigh nothing, "" for none."""
    creators = survey.creators.get(robot.path, ())
    return next((each for each in creators if each.startswith(CONVERTERS)), "")


def weightless(robot: RobotPlan) -> Opinion:
    """Return the opinion that bodies of a robot without mass weigh nothing."""
    rule = Property(name=MASSLESS_BODIES, type_name="token", value="weightless", custom=True)
    return Opinion(path=robot.path, properties=(rule,))


RATE = 50.0
"""Hz of joint states and odometry: those of ros2_controllers' examples and of the bridge's implicit topics."""

ACCELERATION = 1.0
"""m/s^2: acceleration limit of a differential drive, unless the robot's own file names one. A wheel that reaches its
speed in one step throws its robot up."""

MONITOR_RATE = 20.0
STOPPED_VELOCITY = 0.01
MOST_FINGERS = 2
"""Independent finger joints up to which a hand is a parallel gripper."""

_FINGER = re.compile(r"finger|gripper|jaw|claw|knuckle", re.IGNORECASE)


def is_finger(joint: JointPlan) -> bool:
    """Return whether a joint, or the link that it moves, is named after a finger of a gripper."""
    return len(joint.dofs) == 1 and bool(_FINGER.search(joint.name) or _FINGER.search(joint.child))


class RobotScaffold:
    """The layer of one robot.

    Attributes:
        decisions: Those taken so far.
    """

    def __init__(
        self,
        plan: BridgePlan,
        index: int,
        survey: Survey,
        namespaces: names.UniqueNames,
        *,
        namespace: str | None,
        limits: DriveLimits | None,
    ) -> None:
        """Store the robot; `decide` fills the scaffold.

        Args:
            plan: The asset's.
            index: Of the robot in it.
            survey: Of the same stage.
            namespaces: Those of the robots before; no two are the same.
            namespace: The robot's, "" for none; None for the name of its prim.
            limits: Of its differential drive; None to write none.
        """
        self._namespace, self._limits = namespace, limits
        self._plan = plan
        self._robot: RobotPlan = plan.robots[index]
        self._survey = survey
        self._namespaces = namespaces
        self._joints = in_tree_order(self._robot)
        self._overs: dict[str, Opinion] = {}
        self._interfaces: list[Opinion] = []
        self._controllers: list[Opinion] = []
        taken = survey.children.get(self._robot.path, frozenset())
        self._interface_scope = f"{self._robot.path}/{free_name('Interfaces', taken)}"
        self._controller_scope = f"{self._robot.path}/{free_name('Controllers', taken)}"
        self.decisions: list[Decision] = []

    def opinions(self) -> list[Opinion]:
        """Return what the layer says, parents before children."""
        found = [self._overs[path] for path in sorted(self._overs, key=lambda path: path.count("/"))]
        for scope, members in (
            (self._interface_scope, self._interfaces),
            (self._controller_scope, self._controllers),
        ):
            if members:
                found += [Opinion(path=scope, define="Scope"), *members]
        return found

    def decide(self) -> None:
        """Decide everything."""
        self._context()
        self._joint_names()
        self._massless_bodies()
        states = self._joint_states()
        if states:
            drive = self._drive()
            in_drive = {joint.path for joint in (*drive.left, *drive.right)} if drive is not None else set()
            fingers = self._fingers()
            held = in_drive | {joint.path for joint in fingers}
            arm = self._trajectory_joints(held, {joint.path for joint in self._followers()})
            self._commands(in_drive)
            self._trajectory(arm)
            self._gripper(fingers)
        self._remarks(self._frames())

    # --- Context, names -------------------------------------------------------------------------------------------

    def _context(self) -> None:
        robot = self._robot
        if not robot.implicit:
            self._say("note", "context", f"{robot.path} has one: namespace {robot.namespace}", robot.path)
            return
        if self._namespace is not None:
            name = self._namespace
        elif robot.namespace != "/":
            name = robot.namespace.removeprefix("/")
        else:
            name = self._namespaces.claim_near(names.valid_name(prim_name(robot.path)), robot.path)
        self._over(
            Opinion(
                path=robot.path,
                schemas=("RosContextAPI",),
                properties=properties_of(ContextRecord, namespace=name),
            )
        )
        said = f"namespace {name}" if name else "no namespace"
        self._say("written", "context", f"{robot.path}, {said}", robot.path)

    def _joint_names(self) -> None:
        written = 0
        for joint in self._joints:
            if joint.path in self._survey.named_joints or not self._is_open(joint.path, "joint name"):
                continue
            self._over(
                Opinion(
                    path=joint.path,
                    properties=(
                        Property(
                            name="ros:joint:name",
                            type_name="string",
                            value=joint.local_name or joint.name,
                            custom=True,
                        ),
                    ),
                )
            )
            written += 1
        if written:
            self._say("written", "joint names", f"{written}, as ros:joint:name", self._robot.path)

    def _massless_bodies(self) -> None:
        """Author massless_bodies for converted robots: converters drop masses of 0, and UsdPhysics takes 1 kg."""
        robot = self._robot
        creator = converter_of(self._survey, robot)
        if creator and self._is_open(robot.path, "bodies without mass"):
            self._over(weightless(robot))
            self._say(
                "written", "bodies without mass", f"weightless, as in what {creator} converted", robot.path
            )

    # --- Joints ---------------------------------------------------------------------------------------------------

    def _movable(self) -> list[JointPlan]:
        return [joint for joint in self._joints if joint.dofs]

    def _followers(self) -> list[JointPlan]:
        return [j for j in self._movable() if all(dof.mimic is not None for dof in j.dofs)]

    def _joint_states(self) -> bool:
        joints = self._movable()
        if not joints:
            self._say("left out", "joint states", "the robot has no movable joint", self._robot.path)
            return False
        topic = self._topic("joint_states", "publisher", JOINT_STATE, publish_rate=RATE)
        self._controller(
            "joint_state_broadcaster",
            JOINT_STATE_BROADCASTER,
            properties_of(
                JointStateBroadcasterRecord, publisher=(topic,), joints=tuple(joint.path for joint in joints)
            ),
        )
        self._say("written", "joint states", f"joint_states, {len(joints)} joints, {RATE:g} Hz", topic)
        return True

    def _commands(self, in_drive: set[str]) -> None:
        following = {joint.path for joint in self._followers()}
        joints = [j for j in self._movable() if j.path not in in_drive and j.path not in following]
        driven = driven_joints(self._plan.physics) & {joint.path for joint in self._movable()}
        # Where other joints have drives, a wheel without one turns by itself, whatever it is called.
        loose = [
            j for j in joints if j.path not in driven and (is_passive_wheel(j) or (driven and is_wheel(j)))
        ]
        if loose:
            text = f"{names_of(loose)}: no motor turns them; their positions are in joint_states"
            self._say("left out", "joint commands", text, self._robot.path)
        joints = [joint for joint in joints if joint not in loose]
        if joints:
            topic = self._topic("joint_commands", "subscription", JOINT_STATE)
            self._say("written", "joint commands", f"joint_commands, for {names_of(joints)}", topic)

    # --- Trajectories ---------------------------------------------------------------------------------------------

    def _trajectory_joints(self, held: set[str], following: set[str]) -> list[JointPlan]:
        driven = driven_joints(self._plan.physics) & {joint.path for joint in self._movable()}
        slack = self._without_stiffness()
        groups: dict[str, list[JointPlan]] = {}
        chosen = []
        for joint in self._movable():
            if joint.path in held or joint.path in following:
                continue
            if len(joint.dofs) > 1:
                groups.setdefault("several degrees of freedom", []).append(joint)
            elif is_wheel(joint):
                groups.setdefault("named after a wheel or caster", []).append(joint)
            elif driven and joint.path not in driven:
                groups.setdefault("no drive, unlike others", []).append(joint)
            elif joint.path in slack:
                groups.setdefault("a drive without stiffness", []).append(joint)
            else:
                chosen.append(joint)
        for reason, joints in groups.items():
            self._say(
                "left out", "joint trajectory controller", f"{names_of(joints)}: {reason}", self._robot.path
            )
        return chosen

    def _without_stiffness(self) -> set[str]:
        """Return the paths of joints whose drive holds no position: it follows velocities, or adds efforts alone."""
        physics = self._plan.physics
        joints = physics.joints if physics is not None else ()
        drives = {joint.path: joint.dofs[0].drive for joint in joints if joint.dofs}
        slack = {path for path, drive in drives.items() if drive is not None and drive.stiffness == 0.0}
        actuators = physics.actuators if physics is not None else ()
        actuated = {joints[each.joint].path for each in actuators if each.joint >= 0}
        holding = {joints[each.joint].path for each in actuators if each.interface == "position"}
        return slack | {path for path in actuated - holding if drives.get(path) is None}

    def _trajectory(self, joints: Sequence[JointPlan]) -> None:
        if not joints:
            return
        name = "joint_trajectory_controller"
        server = self._action(
            "follow_joint_trajectory", f"{name}/follow_joint_trajectory", FOLLOW_JOINT_TRAJECTORY
        )
        self._topic("joint_trajectory", "subscription", JOINT_TRAJECTORY, name=f"{name}/joint_trajectory")
        path = self._controller(
            name,
            JOINT_TRAJECTORY_CONTROLLER,
            properties_of(
                JointTrajectoryRecord,
                server=(server,),
                command_joints=tuple(joint.path for joint in joints),
                action_monitor_rate=MONITOR_RATE,
                stopped_velocity_tolerance=STOPPED_VELOCITY,
            ),
        )
        self._say("written", "joint trajectory controller", f"{name}, of {names_of(joints)}", path)

    # --- Grippers -------------------------------------------------------------------------------------------------

    def _fingers(self) -> list[JointPlan]:
        """Return the joints that a gripper commands: those named so, and followers of none."""
        named = [joint for joint in self._movable() if is_finger(joint)]
        leaders = [joint for joint in named if joint.dofs[0].mimic is None]
        if len(leaders) > MOST_FINGERS:
            self._say(
                "left out",
                "gripper",
                f"{len(leaders)} finger joints move by themselves: {names_of(leaders)}",
                self._robot.path,
            )
            return []
        return leaders

    def _gripper(self, fingers: Sequence[JointPlan]) -> None:
        if not fingers:
            return
        server = self._action(
            "gripper_cmd",
            "gripper_controller/gripper_cmd",
            PARALLEL_GRIPPER_COMMAND,
            gripper_joints=tuple(joint.path for joint in fingers),
        )
        self._say("written", "gripper", f"gripper_controller/gripper_cmd, of {names_of(fingers)}", server)

    # --- Wheels ---------------------------------------------------------------------------------------------------

    def _drive(self) -> DriveGeometry | None:
        try:
            drive = find_drive(self._plan, self._robot)
        except NoDriveError as error:
            self._say("left out", "differential drive", str(error), self._robot.path)
            return None
        if drive is None:
            return None
        subscriber = self._topic("cmd_vel", "subscription", TWIST)
        odom = self._topic("odom", "publisher", ODOMETRY, publish_rate=RATE, override_frame_id="odom")
        limits, limits_said = self._drive_limits(drive)
        path = self._controller(
            "diff_drive",
            DIFF_DRIVE,
            properties_of(
                DiffDriveRecord,
                subscriber=(subscriber,),
                odom=(odom,),
                left_wheels=tuple(joint.path for joint in drive.left),
                right_wheels=tuple(joint.path for joint in drive.right),
                wheel_separation=drive.separation,
                wheel_radius=drive.radius,
                cmd_vel_timeout=0.5,
                **limits,
            ),
        )
        self._say(
            "written",
            "differential drive",
            f"cmd_vel, odom; left {names_of(drive.left)}, right {names_of(drive.right)}; wheels {drive.separation:g} m "
            f"apart, radius {drive.radius:g} m",
            path,
        )
        if limits_said:
            self._say("written", "differential drive", limits_said, path)
        driven = driven_joints(self._plan.physics)
        remarks = list(drive.remarks)
        if not driven & {joint.path for joint in (*drive.left, *drive.right)}:
            remarks.append("the wheel joints have no PhysicsDriveAPI: physics engines will not turn them")
        for remark in remarks:
            self._say("note", "differential drive", remark, path)
        return drive

    def _drive_limits(self, drive: DriveGeometry) -> tuple[dict[str, float], str]:
        """Return the limits of a differential drive by fields of its record, and where they are from."""
        limits = self._limits
        if limits is None:
            return {}, ""
        linear, angular = limits.linear_acceleration, limits.angular_acceleration
        origin = f"from {limits.source}" if limits.source else "no file names others"
        if limits.unread:
            origin = f"{limits.unread} cannot be read"
        if linear is None:
            linear = ACCELERATION
            origin += f"; {linear:g} m/s^2 is import's own" if limits.source else ""
        if angular is None:
            # Each wheel then accelerates by the linear limit.
            angular = round(2.0 * linear / drive.separation, 4)
        found = {
            "linear_max_velocity": limits.linear_velocity,
            "linear_max_acceleration": linear,
            "angular_max_velocity": limits.angular_velocity,
            "angular_max_acceleration": angular,
        }
        values = {name: value for name, value in found.items() if value is not None}
        shown = ", ".join(
            f"{value:g} {'m/s' if name.startswith('linear') else 'rad/s'}{'^2' if 'accel' in name else ''}"
            for name, value in values.items()
        )
        return values, f"at most {shown}: {origin}"

    # --- Frames ---------------------------------------------------------------------------------------------------

    def _frames(self) -> list[str]:
        """Declare the links without mass as frames. Return their ids."""
        robot = self._robot
        unique = names.UniqueNames()
        for frame in robot.frames:
            unique.claim(frame.id, frame.path)
        unique.claim(robot.parent_frame, "")
        framed = {frame.path for frame in robot.frames}
        bodies = {self._plan.layout.bodies[row] for row in robot.bodies}
        written = []
        for xform in self._survey.xforms:
            if xform.path in framed or not is_below(xform.path, robot.path) or not is_link(xform, bodies):
                continue
            name = names.valid_frame_id(xform.display_name) or prim_name(xform.path)
            if name == robot.parent_frame:
                continue
            frame_id = unique.claim_near(name, xform.path, names.valid_frame_id)
            properties = properties_of(FrameRecord, id=frame_id) if frame_id != prim_name(xform.path) else ()
            self._over(Opinion(path=xform.path, schemas=("RosFrameAPI",), properties=properties))
            written.append(frame_id)
        if written:
            self._say("written", "frames", f"{', '.join(written)} (links without mass)", robot.path)
        return written

    def _remarks(self, written: Sequence[str]) -> None:
        robot = self._robot
        ids = {*(frame.id for frame in robot.frames), *written}
        if robot.base >= 0 and not ids & {"base_link", "base_footprint"}:
            self._say(
                "note",
                "frames",
                f"the base is {robot.frames[robot.base].id}; Nav2 expects base_link by default",
                robot.path,
            )

    # --- Opinions -------------------------------------------------------------------------------------------------

    def _topic(self, prim: str, role: str, type_name: str, *, name: str = "", **fields: Any) -> str:
        path = f"{self._interface_scope}/{prim}"
        values = {"role": role, "name": name or prim, "type": type_name, **fields}
        self._interfaces.append(
            Opinion(
                path=path,
                define="Scope",
                schemas=("RosTopicAPI",),
                properties=properties_of(TopicRecord, **values),
            )
        )
        return path

    def _action(self, prim: str, name: str, type_name: str, **fields: Any) -> str:
        path = f"{self._interface_scope}/{prim}"
        properties = properties_of(ActionRecord, role="server", name=name, type=type_name, **fields)
        self._interfaces.append(
            Opinion(path=path, define="Scope", schemas=("RosActionAPI",), properties=properties)
        )
        return path

    def _controller(self, prim: str, schema: str, properties: tuple[Property, ...]) -> str:
        path = f"{self._controller_scope}/{prim}"
        self._controllers.append(Opinion(path=path, define="Scope", schemas=(schema,), properties=properties))
        return path

    def _over(self, opinion: Opinion) -> None:
        known = self._overs.get(opinion.path, Opinion(path=opinion.path))
        self._overs[opinion.path] = Opinion(
            path=opinion.path,
            schemas=known.schemas + opinion.schemas,
            properties=known.properties + opinion.properties,
        )

    def _is_open(self, path: str, subject: str) -> bool:
        if path not in self._survey.closed:
            return True
        self._say("left out", subject, f"{path} is below an instance, where nothing can be authored", path)
        return False

    def _say(self, outcome: Outcome, subject: str, text: str, path: str) -> None:
        self.decisions.append(Decision(outcome=outcome, subject=subject, text=text, path=path))


_CONTROL = "RosControl"


def plan_scaffold(
    plan: BridgePlan,
    survey: Survey,
    *,
    wrap: bool = True,
    interfaces: bool = True,
    additions: Scaffold | None = None,
    namespace: str | None = None,
    limits: DriveLimits | None = None,
) -> Scaffold:
    """Decide what a ROS layer says.

    Each robot of the plan gets a context, names of its joints, joint states, commands, the controllers that its joints
    allow, and frames for its links without mass.

    A robot whose root brings everything along by a payload cannot have interfaces below that root: they are to be
    outside of payloads (REP 0158 section 2.2). There the layer has a root of its own, which refers to the asset.

    Args:
        plan: Of the asset with the physics of `additions`, and without implicit interfaces.
        survey: Of the stage without them.
        wrap: Whether the layer may have a root of its own.
        interfaces: Write interfaces; without, the layer has `additions` alone.
        additions: Physics and sensors that the layer adds.
        namespace: Of a robot without a context, "" for none; None for the name of its prim.
        limits: Limits of differential drives; None without drives of wheels.
    """
    additions = additions or Scaffold()
    opinions, decisions = list(additions.opinions), list(additions.decisions)
    namespaces = names.UniqueNames()
    for index, robot in enumerate(plan.robots):
        if robot.path in survey.closed:
            decisions.append(
                Decision(
                    outcome="left out",
                    subject="robot",
                    path=robot.path,
                    text=f"{robot.path} is an instance, which cannot be given interfaces (REP 0158 section 1.2.6)",
                )
            )
            continue
        if not interfaces:
            continue
        one = RobotScaffold(plan, index, survey, namespaces, namespace=namespace, limits=limits)
        one.decide()
        opinions += one.opinions()
        decisions += one.decisions
    result = Scaffold(opinions=merged(opinions), decisions=tuple(decisions))
    behind = [robot.path for robot in plan.robots if robot.path in survey.payload_roots]
    if not behind or not interfaces:
        return result
    if wrap and len(plan.robots) == 1 and behind == [survey.default_prim]:
        return wrapped(result, behind[0])
    note = Decision(
        outcome="note",
        subject="payload",
        path=behind[0],
        text=f"{', '.join(behind)} has its joints behind a payload, where no interface should be (REP 0158, 2.2)",
    )
    return replace(result, decisions=(*result.decisions, note))


def merged(opinions: Sequence[Opinion]) -> tuple[Opinion, ...]:
    """Return opinions with each prim once, in the order in which they come first."""
    found: dict[str, Opinion] = {}
    for opinion in opinions:
        known = found.get(opinion.path, Opinion(path=opinion.path))
        found[opinion.path] = Opinion(
            path=opinion.path,
            define=known.define or opinion.define,
            schemas=tuple(dict.fromkeys(known.schemas + opinion.schemas)),
            removed_schemas=known.removed_schemas + opinion.removed_schemas,
            properties=tuple({each.name: each for each in known.properties + opinion.properties}.values()),
            inside=known.inside or opinion.inside,
        )
    return tuple(found.values())


def wrapped(scaffold: Scaffold, root: str) -> Scaffold:
    """Return a scaffold whose asset is referenced a level deeper: everything of the asset moves there.

    Args:
        scaffold: Of an asset as it is.
        root: Path of the asset's default prim, which stands at the top; the layer's own root is called the same.
    """
    inner = f"{root}/{prim_name(root)}"
    own = {opinion.path for opinion in scaffold.opinions if opinion.define and not opinion.inside} | {root}

    def moved(path: str) -> str:
        return path if path in own or not is_below(path, root) else inner + path[len(root) :]

    def targets(authored: Property) -> Property:
        if authored.type_name != "rel":
            return authored
        # A joint to the root hangs from the asset's, which has its transform.
        return replace(
            authored, value=tuple(inner if path == root else moved(path) for path in authored.value)
        )

    opinions = [
        replace(
            opinion,
            path=moved(opinion.path),
            properties=tuple(targets(authored) for authored in opinion.properties),
        )
        for opinion in scaffold.opinions
    ]
    note = Decision(
        outcome="note",
        subject="payload",
        path=root,
        text=f"{root} has its joints behind a payload, where no interface may be (REP 0158, 2.2): the layer has a "
        f"{root} of its own, with the asset as {inner}",
    )
    return Scaffold(opinions=tuple(opinions), decisions=(*scaffold.decisions, note), inner=inner)


def has_ros_layer(plan: BridgePlan, survey: Survey) -> bool:
    """Return whether an asset declares interfaces or controllers; a context or frames alone can be added to."""
    declared = [*plan.services, *plan.actions, *(t for t in plan.topics if not t.implicit)]
    return bool(declared) or any(schema.startswith(_CONTROL) for schema in survey.ros_prims)
