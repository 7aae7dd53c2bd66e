"""Options of reading and planning: what the caller decides, as opposed to what the asset says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

Payloads = Literal["all", "none"]
TfOutput = Literal["namespaced", "global", "both", "shared"]
BaseTransform = Literal["auto", "ground_truth", "odometry", "none"]
SystemDefaultQos = Literal["resolved", "rmw"]
Interfaces = Literal["all", "none"]
BeyondLimits = Literal["reject", "clamp"]
MasslessBodies = Literal["auto", "unit_mass", "weightless"]
FramesFromXforms = bool | Literal["auto"]
FRAMES_FROM_XFORMS: dict[str, FramesFromXforms] = {"auto": "auto", "true": True, "false": False}
"""The choices as text, of command lines and parameters."""

RemoteControl = Literal["all", "read_only", "none"]
"""What other nodes may do through the services and parameters of the bridge's node; docs/remote_control.md."""

SOLVERS: tuple[str, ...] = ("newton", "physx", "mjc")


@dataclass(frozen=True, slots=True)
class VariantSelection:
    """One choice of a variant, made on the session layer before composition."""

    prim_path: str
    variant_set: str
    variant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How a stage is opened.

    Attributes:
        variants: Selections that override the authored ones.
        payloads: `none` leaves payloads unloaded, for assets that keep only geometry there (REP 0158 section 1.2.3).
        packages: Directories by ROS package name, for `package://` before the ament index is asked.
        max_prims: Most prims of the composed stage, those of instances counted each.
        max_layers: Most layer files.
        max_bytes: Most bytes in all layer files together.
        max_nesting: Most levels of prims, and of brackets in a text layer.
        max_arcs: Most composition arcs of one prim, and most API schemas applied to it.
        reload_timeout: How long reading the files again may take, s.
        private_copies: Read layers from private copies: others may write the files in place at any time.
    """

    variants: tuple[VariantSelection, ...] = ()
    payloads: Payloads = "all"
    packages: Mapping[str, str] = field(default_factory=dict)
    max_prims: int = 2_000_000
    max_layers: int = 10_000
    max_bytes: int = 2_000_000_000
    max_nesting: int = 10_000
    max_arcs: int = 500
    reload_timeout: float = 10.0
    private_copies: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """How a plan is made from records.

    Attributes:
        namespace: The node's own namespace, the outermost segment of every relative name.
        implicit_context: Treat the default prim as a context where the stage has no RosContextAPI.
        implicit_interfaces: Give a robot whose asset declares no interface joint_states and joint_commands.
        isaac_names: Prefer isaac:nameOverride to prim names for robots that have Ros*API schemas, too.
        frames_from_xforms: `auto` makes Xforms that stand for links frames, as URDF converters author links without
            mass; True all Xforms directly below bodies; False none.
        schema_resolvers: Solvers whose attributes are read, in order of priority.
        system_default_qos: `resolved` replaces system_default by the bridge's own rule, `rmw` leaves it to the
            middleware.
        tf_output: Whether /tf goes to the robot's namespace, to the global topics with prefixed ids, to both, or to the
            global topics with ids as they are, `shared` by all robots as under robot_state_publisher.
        frame_prefix: Put before every frame id, as robot_state_publisher's parameter of that name.
        publish_tf: Whether the bridge broadcasts transforms at all.
        base_transform: Who owns the transform of the mobile base; `auto` is `odometry` where a differential drive
            with an odometry publisher owns the robot, else `ground_truth`. With `none` nothing hangs from parent_frame.
        beyond_limits: What becomes of goals and trajectories with positions beyond a joint's limits.
        massless_bodies: What bodies without mass weigh: `unit_mass` as UsdPhysics says, 1 kg where they have no
            collider; `weightless` nothing; `auto` as the asset says, else `unit_mass`.
        controller_rate: How often controllers act at least, Hz; the rate of joint states for external controllers.
        external_joint_states: Name of the topic with those joint states, the default of ros2_control's topic-based
            hardware interfaces.
        external_joint_commands: Name of the topic that external controllers command joints on, likewise.
        interfaces: Whether the topics, services, actions and controllers of the asset are there at all; with `none`
            transforms and descriptions are all that is.
        enabled: By prim path of an interface, whether it is to be there, whatever `starts_enabled` says.
        rates: By prim path of a publisher, its rate in Hz instead of the authored one.
        contexts: Prim paths; of the stage's robots only those at or below one of them are served, all where it is
            empty. `/` stands for the interfaces outside of every context.
        spawned: Prim paths that were spawned while the bridge runs: served whatever `contexts` says.
    """

    namespace: str = ""
    implicit_context: bool = True
    implicit_interfaces: bool = True
    isaac_names: bool = False
    frames_from_xforms: FramesFromXforms = "auto"
    schema_resolvers: tuple[str, ...] = SOLVERS
    system_default_qos: SystemDefaultQos = "resolved"
    tf_output: TfOutput = "namespaced"
    frame_prefix: str = ""
    publish_tf: bool = True
    base_transform: BaseTransform = "auto"
    beyond_limits: BeyondLimits = "reject"
    massless_bodies: MasslessBodies = "auto"
    controller_rate: float = 100.0
    external_joint_states: str = "robot_joint_states"
    external_joint_commands: str = "robot_joint_commands"
    interfaces: Interfaces = "all"
    enabled: Mapping[str, bool] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)
    contexts: tuple[str, ...] = ()
    spawned: tuple[str, ...] = ()


class TypeCatalog(Protocol):
    """Which interface types the ROS environment has. Planning without one checks the form of type names only."""

    def contains(self, type_name: str) -> bool:
        """Returns whether `type_name` (`sensor_msgs/msg/Image`) is installed. Must import nothing."""
        ...
