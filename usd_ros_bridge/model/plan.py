"""The plan: everything the bridge will do for an asset, resolved, in SI units, with the prim each part came from.

A plan is immutable data. It is made without ROS and without physics, can be printed and compared, and is all that
the runtime needs beside a backend.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.message_types import TypeCatalog
from usd_ros_bridge.model.physics import PhysicsScene
from usd_ros_bridge.model.records import DofAxis, JointType
from usd_ros_bridge.model.sensor_schemas import SensorPlan
from usd_ros_bridge.model.sensors import CameraModel
from usd_ros_bridge.model.state import JointTrack, Layout, PoseTrack
from usd_ros_bridge.options import PlanOptions, ReadOptions, VariantSelection, VariantSet
from usd_ros_bridge.spatial.pose import IDENTITY_POSE, Pose

AxisLetter = Literal["X", "Y", "Z"]
InterfaceKind = Literal["topic", "service", "action"]

WORLD = "world"

STARTS_DISABLED = "starts_enabled is false"
SWITCHED_OFF = "it is switched off"
"""Reason of an interface that the caller disabled (PlanOptions.enabled)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scene:
    """Cameras and baked time samples.

    Attributes:
        cameras: Cameras that an interface refers to.
        pose_tracks: Animated bodies and Xforms.
        joint_tracks: Degrees of freedom with time-sampled positions.
        start: First time of the stage's range in seconds (0 is time code 0), None where not authored.
        end: Last time of the stage's range in seconds, None where not authored.
    """

    cameras: tuple[CameraModel, ...] = ()
    pose_tracks: tuple[PoseTrack, ...] = ()
    joint_tracks: tuple[JointTrack, ...] = ()
    start: float | None = None
    end: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MimicPlan:
    """A degree of freedom that follows another: `position = multiplier * leader + offset`.

    Attributes:
        leader: Row of the leading degree of freedom in the plan's layout.
        multiplier: Dimensionless, rad/m or m/rad.
        offset: rad or m.
        polynomial: Coefficients of the leader's second to fourth power, for engines; empty for none.
    """

    leader: int
    multiplier: float = 1.0
    offset: float = 0.0
    polynomial: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DofPlan:
    """One degree of freedom of a joint: the unit of JointState and of State's joint arrays. Radians or metres.

    Attributes:
        name: Name in JointState; the joint's own name where the joint has one degree of freedom, else the joint's
            name and `_tx`, `_ty`, `_tz`, `_rx`, `_ry` or `_rz`.
        row: Row in the layout.
        axis: Motion of body1 relative to body0, in the joint frame. Several of one joint act in the order listed.
        position: Position at rest, as authored or projected from the authored body poses.
        lower: Lower limit, -inf where there is none.
        upper: Upper limit, inf where there is none.
        max_velocity: Authored speed limit, inf where there is none.
        max_effort: Authored effort limit (N or N m), inf where there is none.
        mimic: The rule it follows, where it does.
    """

    name: str
    row: int
    axis: DofAxis
    position: float = 0.0
    lower: float = -float("inf")
    upper: float = float("inf")
    max_velocity: float = float("inf")
    max_effort: float = float("inf")
    mimic: MimicPlan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JointPlan:
    """A joint that is an edge of the robot's tree (REP 0158 sections 1.3 and 2.10).

    `body0_from_body1 = body0_from_joint * motion * inverse(body1_from_joint)`, motion of body1 relative to body0.
    Where an end is the world, its frame is the robot's context frame (or the world itself where the context prim is
    the body that is anchored).

    Attributes:
        name: ROS joint name, unique in the robot.
        local_name: Its name in messages of the nearest nested context that it is in, "" where it is in none.
        path: Prim path.
        type: Kind; `continuous` is a revolute joint without limits.
        parent: Frame id of the tree's parent.
        child: Frame id of the tree's child.
        parent_path: Prim path of the parent (a body, or the context), "" for the world.
        child_path: Prim path of the child body.
        inverted: body1 is the tree's parent (authored child first). Positions keep the authored sign.
        axis: Axis of the single degree of freedom, None where there is none or more than one.
        body0_from_joint: Joint frame in the body0 end.
        body1_from_joint: Joint frame in the body1 end.
        dofs: Degrees of freedom; empty for fixed and distance joints.
    """

    name: str
    path: str
    type: JointType
    parent: str
    child: str
    parent_path: str
    child_path: str
    inverted: bool = False
    local_name: str = ""
    axis: AxisLetter | None = None
    body0_from_joint: Pose = IDENTITY_POSE
    body1_from_joint: Pose = IDENTITY_POSE
    dofs: tuple[DofPlan, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgePlan:
    """An edge of the robot's tree: the joints, one or (converted MJCF) several, between two bodies, parents first.

    With one joint, `parent_from_child` follows from JointPlan. With several, the motions act one after another about
    the rest pose: `parent_from_child = prod(F_i * motion_i * inverse(F_i)) * rest`, F_i the joint frame in the parent.

    Attributes:
        parent_path: Body or context prim, "" for the world.
        child_path: Body.
        joints: Indices in RobotPlan.joints; all oriented alike.
        rest: `parent_from_child` with every degree of freedom at zero, as the last joint's frames give it.
        rigid: No degree of freedom at all (a fixed joint). A distance joint is neither rigid nor has any: its child
            moves freely and comes from the body's pose.
    """

    parent_path: str
    child_path: str
    joints: tuple[int, ...]
    rest: Pose
    rigid: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FramePlan:
    """A tf2 frame (REP 0158 section 2.7).

    Attributes:
        id: Frame id without prefix.
        parent: Parent's frame id without prefix.
        path: Prim path.
        static: It goes to /tf_static.
        parent_from_frame: Transform at rest.
        parent_index: Index of the parent in RobotPlan.frames, -1 where the parent is `parent_frame` or odom. Parents
            come before their children.
        edge: Index in RobotPlan.edges of the edge that ends in this frame and starts in its parent's prim, -1 where
            the transform comes from poses.
        carrier: Row in the layout's bodies of what moves the frame, -1 where nothing does.
        carrier_from_frame: Frame in its carrier (in the world where nothing moves it).
    """

    id: str
    parent: str
    path: str
    static: bool
    parent_from_frame: Pose
    parent_index: int = -1
    edge: int = -1
    carrier: int = -1
    carrier_from_frame: Pose = IDENTITY_POSE


@dataclass(frozen=True, slots=True, kw_only=True)
class TfOutput:
    """One pair of topics that a robot's transforms go to.

    Attributes:
        tf: Absolute topic name for frames that move.
        tf_static: Absolute topic name for frames that do not.
        prefix: Put before every frame id except the topmost parent.
    """

    tf: str
    tf_static: str
    prefix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotPlan:
    """One outermost context with the kinematic trees and frames below it.

    Attributes:
        path: Prim path of the outermost context.
        namespace: Absolute effective namespace, "/" for none.
        domain_id: Authored domain id, None for the process's default.
        parent_frame: Frame that the topmost frame hangs from.
        implicit: The default prim acts as the context because the stage has none.
        tf_outputs: Topics of transforms; empty if none are published.
        frames: Parents before children.
        joints: In traversal order.
        edges: Parents before children.
        joint_state_rows: Layout rows in the order of JointState.
        bodies: Layout rows of the robot's bodies.
        base: Index of the base's frame in `frames` where the robot's base can move freely, else -1: that of the root
            body, or of the topmost link without mass above it (base_footprint), which that body carries.
        base_row: Layout row of the robot's root body, -1 where it has none.
        odom_frame: Frame id of odometry; the base frame's parent where the base transform is odometry.
        base_transform: Source of the base frame's transform.
        name: Name of the robot in its URDF: `assetInfo.name` of the context prim, else the prim's name.
    """

    path: str
    namespace: str
    domain_id: int | None
    parent_frame: str = WORLD
    implicit: bool = False
    tf_outputs: tuple[TfOutput, ...] = ()
    frames: tuple[FramePlan, ...] = ()
    joints: tuple[JointPlan, ...] = ()
    edges: tuple[EdgePlan, ...] = ()
    joint_state_rows: tuple[int, ...] = ()
    bodies: tuple[int, ...] = ()
    base: int = -1
    base_row: int = -1
    odom_frame: str = "odom"
    base_transform: Literal["ground_truth", "odometry", "none"] = "ground_truth"
    name: str = ""


def carrier_of(layout: Layout, robot: RobotPlan, path: str) -> tuple[int, Pose]:
    """Return the row of the body that moves the prim at `path`, -1 for the world, and `carrier_from_prim`."""
    row = layout.body_index.get(path, -1)
    if row >= 0:
        return row, IDENTITY_POSE
    for frame in robot.frames:
        if frame.path == path:
            return frame.carrier, frame.carrier_from_frame
    return -1, IDENTITY_POSE


@dataclass(frozen=True, slots=True, kw_only=True)
class QosPlan:
    """Quality of service as the bridge will ask for it (REP 0158 section 2.4)."""

    reliability: Literal["reliable", "best_effort", "system_default"] = "reliable"
    durability: Literal["volatile", "transient_local", "system_default"] = "volatile"
    history: Literal["keep_last", "keep_all", "system_default"] = "keep_last"
    depth: int = 10
    match_publisher: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfacePlan:
    """A topic, service or action.

    Attributes:
        path: Prim path.
        role: `publisher`, `subscription`, `server` or `client`.
        name: Absolute resolved name; as far as it could be resolved where `enabled` is false.
        type: Interface type (`sensor_msgs/msg/Image`).
        domain_id: Domain id, None for the process's default.
        enabled: It is created.
        reason: Why not, "" where enabled.
        context_path: Nearest context, "" where there is none.
        robot: Index in BridgePlan.robots, -1 where the interface belongs to none.
        body: Layout row of the nearest body at or above the prim; a robot's base for interfaces of the whole robot;
            -1 where there is none.
        body_from_prim: The prim in that body (in the world where there is none).
        starts_enabled: As authored; a disabled interface may be switched on at run time only where this is the reason.
    """

    path: str
    role: str
    name: str
    type: str
    domain_id: int | None = None
    enabled: bool = True
    reason: str = ""
    context_path: str = ""
    robot: int = -1
    body: int = -1
    body_from_prim: Pose = IDENTITY_POSE
    starts_enabled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan(InterfacePlan):
    """A publisher or subscription.

    Attributes:
        publish_rate: Hz; None for subscriptions.
        frame_id: header.frame_id of its messages.
        child_frame_id: The body's frame id for types that name a child (Odometry, TransformStamped), else "".
        body_from_child: That frame in the body.
        qos: Resolved quality of service.
        dofs: Layout rows of the joints of this interface's context, in the order of JointState: of the whole robot, or
            of a nested context alone.
        joints: Names of those in messages of this context; empty where they are the layout's.
        camera: Index in Scene.cameras of the nearest camera at or above the prim, -1 where there is none.
        implicit: The bridge added it (implicit interfaces).
        source: Path of the attribute whose value it publishes, "" for none.
        command_interface: What the numbers of a command array are for its joints.
    """

    publish_rate: float | None = None
    frame_id: str = ""
    child_frame_id: str = ""
    body_from_child: Pose = IDENTITY_POSE
    qos: QosPlan = QosPlan()
    dofs: tuple[int, ...] = ()
    joints: tuple[str, ...] = ()
    camera: int = -1
    implicit: bool = False
    source: str = ""
    command_interface: Literal["position", "velocity", "effort"] = "position"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePlan(InterfacePlan):
    """A service server or client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionPlan(InterfacePlan):
    """An action server or client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerPlan:
    """A controller that the asset declares or implies.

    Attributes:
        path: Prim path.
        schema: Schema it is declared by or stands for (`RosControlDiffDriveAPI`).
        interfaces: Prim paths of the interfaces it uses.
        joints: Names of the joints it claims, in its own order, as messages of its interface's context name them.
        dofs: Layout rows of those joints.
        parameters: The schema's other attributes by record field name, SI, fallbacks applied.
        robot: Index in BridgePlan.robots, -1 where it belongs to none.
        enabled: It starts active.
        reason: Why not, "" where enabled.
        switchable: It could work: it does, or it is off because of `starts_enabled` or of another controller
            that is active. Such a plan is complete, and may be switched on at run time; another one never can.
        claims: Targets that no other active controller may write: layout rows of degrees of freedom (int), prim paths
            of bodies, and references of other controllers (str); empty for a controller that only reads.
        chained: Prim paths of the controllers whose references it commands.
        implied: An interface stands for it without a schema.
    """

    path: str
    schema: str
    interfaces: tuple[str, ...] = ()
    joints: tuple[str, ...] = ()
    dofs: tuple[int, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    robot: int = -1
    enabled: bool = True
    reason: str = ""
    switchable: bool = True
    claims: tuple[int | str, ...] = ()
    chained: tuple[str, ...] = ()
    implied: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgePlan:
    """Everything that the bridge does for an asset.

    Attributes:
        asset: The asset as the caller named it.
        sensors: Publishers that sensor models of plug-ins feed.
        layout: Which rows of the state's arrays are which bodies and degrees of freedom, and their state at rest.
        scene: Cameras, time samples and similar data, in SI units.
        physics: Input of engines; None if it was not read.
        stage: The opened stage, opaque, for engines with their own USD importer; None where there is none.
        stage_owned: The stage was opened to make the plan, and belongs to it.
        default_prim: Prim path of the stage's default prim, "" where it has none.
        max_prims: Most prims of the instances of the stage's PointInstancers, of which physics is read.
        options: How it was made, so that it can be made again.
        catalog: The types that were known, likewise; None if only their form was checked.
        variants: Selections that were made on the session layer.
        contexts: Outermost contexts of the whole stage, those that `options` leaves out included.
        context_namespaces: Their namespaces as authored, "" for none.
        variant_sets: Variant sets of the stage's prims, for those who let go of the stage; else empty.
    """

    asset: str
    robots: tuple[RobotPlan, ...] = ()
    topics: tuple[TopicPlan, ...] = ()
    services: tuple[ServicePlan, ...] = ()
    actions: tuple[ActionPlan, ...] = ()
    controllers: tuple[ControllerPlan, ...] = ()
    sensors: tuple[SensorPlan, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    layout: Layout = field(default_factory=Layout)
    scene: Scene = field(default_factory=Scene, repr=False)
    physics: PhysicsScene | None = field(default=None, repr=False, compare=False)
    stage: object | None = field(default=None, repr=False, compare=False)
    stage_owned: bool = field(default=False, repr=False, compare=False)
    default_prim: str = field(default="", repr=False, compare=False)
    max_prims: int = field(default=ReadOptions().max_prims, repr=False, compare=False)
    options: PlanOptions = field(default_factory=PlanOptions, repr=False, compare=False)
    catalog: TypeCatalog | None = field(default=None, repr=False, compare=False)
    variants: tuple[VariantSelection, ...] = field(default=(), repr=False, compare=False)
    contexts: tuple[str, ...] = field(default=(), repr=False, compare=False)
    context_namespaces: tuple[str, ...] = field(default=(), repr=False, compare=False)
    variant_sets: tuple[VariantSet, ...] = field(default=(), repr=False, compare=False)

    def joint_names(self, topic: TopicPlan) -> tuple[str, ...]:
        """Return the names that messages of a topic give to its `dofs`, in their order."""
        return topic.joints or tuple(self.layout.dofs[row] for row in topic.dofs)


def followers_of(plan: BridgePlan, robot: int = -1) -> set[int]:
    """Return the rows of degrees of freedom that follow others, of one robot or all: they are not commanded."""
    return {
        dof.row
        for each in (plan.robots if robot < 0 else plan.robots[robot : robot + 1])
        for joint in each.joints
        for dof in joint.dofs
        if dof.mimic is not None
    }
