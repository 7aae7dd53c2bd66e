"""The bridge node's parameters: what they are called, what they may be, and the options that they make."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor, SetParametersResult
from rclpy.exceptions import ParameterException

from usd_ros_bridge.model import ranges
from usd_ros_bridge.model.diagnostics import escaped
from usd_ros_bridge.model.errors import OptionError, choices
from usd_ros_bridge.model.options import (
    FRAMES_FROM_XFORMS,
    SOLVERS,
    BaseTransform,
    BeyondLimits,
    Interfaces,
    MasslessBodies,
    Payloads,
    PlanOptions,
    ReadOptions,
    RemoteControl,
    SystemDefaultQos,
    TfOutput,
)
from usd_ros_bridge.model.parse import parse_contexts, parse_key_values, parse_packages, parse_variants
from usd_ros_bridge.model.ranges import NumberRange, shown
from usd_ros_bridge.ros.description import DescriptionOptions
from usd_ros_bridge.ros.diagnostics import DiagnosticsOptions
from usd_ros_bridge.runtime.time_control import TimeOptions

Kind = Literal["string", "strings", "bool", "int", "double"]

# How ROS 2 writes an array of no strings: an empty one has no type, and a parameter that is declared without a
# value makes rclpy answer every request that names it, as `ros2 param dump` does, with nothing at all.
_NO_STRINGS = [""]

_NAMES_SHOWN = 3

SIM_TIME = "use_sim_time"
"""rclpy's parameter, which the bridge follows as it is at the start."""

JOINT_STATES = "joint_states"
"""The backend that follows joint states, as robot_state_publisher does."""

NO_HANDLERS = "none"
"""The only one of `handlers` where none is wanted: an array of nothing stands for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterSpec:
    """One parameter.

    Attributes:
        name: Its name.
        kind: Its type.
        default: Its default; None for an array of nothing.
        description: For `ros2 param describe`.
        options: What a string, or each of several, may be; empty for anything.
        range: Which numbers are possible.
        read_only: Whether it can never change while the node runs.
        dynamic: Whether it may be set while the bridge runs.
        takes_bool: Whether a string that may be `true` or `false` is taken as a bool, too, which YAML makes of either.
    """

    name: str
    kind: Kind
    default: Any = None
    description: str
    options: tuple[str, ...] = ()
    range: NumberRange | None = None
    read_only: bool = False
    dynamic: bool = False
    takes_bool: bool = False

    def text(self, value: Any) -> Any:
        """Return a value as the string that stands for it, where the parameter takes either."""
        return str(value).lower() if self.takes_bool and isinstance(value, bool) else value

    def descriptor(self) -> Any:
        """Returns the rcl_interfaces ParameterDescriptor."""
        descriptor = ParameterDescriptor(
            description=self.description, read_only=self.read_only, dynamic_typing=self.takes_bool
        )
        if self.options:
            descriptor.additional_constraints = "one of: " + ", ".join(self.options)
        if self.range is not None:
            low, high = self.range.limits
            descriptor.additional_constraints = str(self.range)
            if self.kind == "int":
                descriptor.integer_range = [IntegerRange(from_value=int(low), to_value=int(high))]
            else:
                descriptor.floating_point_range = [FloatingPointRange(from_value=low, to_value=high)]
        return descriptor


def _spec(name: str, kind: Kind, default: Any, description: str, **more: Any) -> ParameterSpec:
    return ParameterSpec(name=name, kind=kind, default=default, description=description, **more)


PARAMETERS: tuple[ParameterSpec, ...] = (
    _spec("asset", "string", "", "The OpenUSD asset: a path or package://name/path.", read_only=True),
    _spec("packages", "strings", None, "Directories for package://, as name=directory.", read_only=True),
    _spec("variants", "strings", None, "Variant selections, as /Prim/Path:set=choice.", dynamic=True),
    _spec("payloads", "string", "all", "Whether payloads are loaded.", options=get_args(Payloads)),
    _spec("watch", "bool", False, "Whether the asset's files are read again where they change on disk."),
    _spec(
        "reload_timeout",
        "double",
        10.0,
        "How long reading the asset's files again may take, s.",
        range=ranges.RELOAD_TIME,
    ),
    _spec("max_prims", "int", 2000000, "Most prims of the composed stage.", range=ranges.LIMIT),
    _spec("max_layers", "int", 10000, "Most layer files.", range=ranges.LIMIT),
    _spec("max_bytes", "int", 2000000000, "Most bytes in all layer files.", range=ranges.LIMIT),
    _spec(
        "max_nesting",
        "int",
        10000,
        "Most levels of prims, and of brackets in a text layer.",
        range=ranges.LIMIT,
    ),
    _spec(
        "max_arcs",
        "int",
        500,
        "Most composition arcs of one prim, and most API schemas applied to it.",
        range=ranges.LIMIT,
    ),
    _spec("strict", "bool", False, "Refuse to start if the asset has an error."),
    _spec(
        "backend", "string", "auto", "What moves the robot; auto: mujoco where forces matter, else kinematic."
    ),
    _spec("backend_options", "strings", None, "Options of the backend, as key=value."),
    _spec(
        "real_time_factor",
        "double",
        1.0,
        "Seconds of bridge time in a second where the backend owns time; 0: as many as possible.",
        range=ranges.FACTOR,
        dynamic=True,
    ),
    _spec("start_paused", "bool", False, "Whether time that the backend owns stands still at first."),
    _spec("publish_clock", "bool", True, "Whether time that the backend owns is told on /clock."),
    _spec(
        "clock_rate",
        "double",
        100.0,
        "How often /clock is published at most, Hz of bridge time.",
        range=ranges.RATE,
    ),
    _spec(
        "spawn_roots",
        "strings",
        None,
        "Directories whose USD files simulation_interfaces may spawn.",
        read_only=True,
    ),
    _spec(
        "remote_control",
        "string",
        "all",
        "What other nodes may do through the node's services and parameters.",
        options=get_args(RemoteControl),
        read_only=True,
    ),
    _spec("namespace", "string", "", "Outermost namespace of relative names; empty: the node's own."),
    _spec(
        "interfaces",
        "string",
        "all",
        "Whether the asset's topics, services, actions and controllers are there, beside transforms.",
        options=get_args(Interfaces),
        dynamic=True,
    ),
    _spec(
        "contexts",
        "strings",
        None,
        "Prim paths: only the robots at or below one of them are served; empty: all.",
        dynamic=True,
    ),
    _spec(
        "implicit_context",
        "bool",
        True,
        "Treat the default prim as a context if the asset has none.",
        dynamic=True,
    ),
    _spec(
        "implicit_interfaces",
        "bool",
        True,
        "Give a robot without interfaces joint_states and joint_commands.",
        dynamic=True,
    ),
    _spec(
        "isaac_names",
        "bool",
        False,
        "Prefer isaac:nameOverride where the robot has ROS schemas, too.",
        dynamic=True,
    ),
    _spec(
        "frames_from_xforms",
        "string",
        "auto",
        "Which plain Xforms are frames: links without mass, all directly below bodies, or none.",
        options=tuple(FRAMES_FROM_XFORMS),
        dynamic=True,
        takes_bool=True,
    ),
    _spec(
        "schema_resolvers",
        "strings",
        ["newton", "physx", "mjc"],
        "Solvers whose attributes count, by priority.",
        options=SOLVERS,
        dynamic=True,
    ),
    _spec(
        "system_default_qos",
        "string",
        "resolved",
        "Who decides what system_default means: the bridge, or the middleware.",
        options=get_args(SystemDefaultQos),
        dynamic=True,
    ),
    _spec("publish_tf", "bool", True, "Whether to broadcast transforms.", dynamic=True),
    _spec(
        "tf_rate",
        "double",
        50.0,
        "How often moving transforms are sent, Hz.",
        range=ranges.RATE,
        dynamic=True,
    ),
    _spec(
        "publish_frequency",
        "double",
        0.0,
        "As robot_state_publisher's: tf_rate by another name, which counts unless it is 0.",
        range=ranges.FREQUENCY,
        dynamic=True,
    ),
    _spec(
        "ignore_timestamp",
        "bool",
        False,
        "As robot_state_publisher's: the backend joint_states shows every message, however old.",
    ),
    _spec(
        "tf_output", "string", "namespaced", "Where transforms go.", options=get_args(TfOutput), dynamic=True
    ),
    _spec("frame_prefix", "string", "", "Put before every frame id.", dynamic=True),
    _spec(
        "base_transform",
        "string",
        "auto",
        "Who places the base.",
        options=get_args(BaseTransform),
        dynamic=True,
    ),
    _spec("publish_description", "bool", True, "Whether robots are described on robot_description."),
    _spec(
        "mesh_directory", "string", "", "Where mesh files for descriptions are put; empty: the user's cache."
    ),
    _spec("publish_diagnostics", "bool", True, "Whether /diagnostics tells how everything is."),
    _spec("diagnostics_rate", "double", 1.0, "How often, Hz of wall time.", range=ranges.DIAGNOSTICS_RATE),
    _spec(
        "controller_rate",
        "double",
        100.0,
        "How often controllers act at least while they have something to do, Hz.",
        range=ranges.RATE,
    ),
    _spec(
        "beyond_limits",
        "string",
        "reject",
        "What becomes of goals and trajectories with positions beyond a joint's limits.",
        options=get_args(BeyondLimits),
        dynamic=True,
    ),
    _spec(
        "massless_bodies",
        "string",
        "auto",
        "What bodies without mass weigh under physics; auto: as the asset says, else unit_mass.",
        options=get_args(MasslessBodies),
        dynamic=True,
    ),
    _spec("external_joint_states", "string", "robot_joint_states", "Joint states for external controllers."),
    _spec(
        "external_joint_commands", "string", "robot_joint_commands", "Joint commands of external controllers."
    ),
    _spec("handlers", "strings", None, "Installed handlers that are asked to serve; empty: all, none: none."),
)
_BY_NAME = {spec.name: spec for spec in PARAMETERS}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """What a bridge node is asked to do.

    Attributes:
        asset: Path of the asset.
        strict: Refuse an asset with errors.
        watch: Read files of the asset again where they change.
        backend: Name of the backend.
        backend_options: Its options.
        time: How time passes where the backend owns it.
        tf_rate: Hz; None for every state.
        description: How robots are described.
        diagnostics: How it is told how everything is.
        handlers: Names of the installed handlers that are asked to serve, None for all.
        spawn_roots: Directories whose files may be spawned.
        remote_control: What other nodes may do.
        read: How the asset is opened.
        plan: How it is planned.
    """

    asset: str
    strict: bool = False
    watch: bool = False
    backend: str = "auto"
    backend_options: Mapping[str, str] = field(default_factory=dict)
    time: TimeOptions = field(default_factory=TimeOptions)
    tf_rate: float | None = 50.0
    description: DescriptionOptions = field(default_factory=DescriptionOptions)
    diagnostics: DiagnosticsOptions = field(default_factory=DiagnosticsOptions)
    handlers: tuple[str, ...] | None = None
    spawn_roots: tuple[str, ...] = ()
    remote_control: RemoteControl = "all"
    read: ReadOptions = field(default_factory=ReadOptions)
    plan: PlanOptions = field(default_factory=PlanOptions)


def declare(node: Any, defaults: Mapping[str, object] | None = None) -> dict[str, Any]:
    """Declares all parameters on `node` and returns their values.

    Args:
        node: An rclpy node.
        defaults: Of parameters whose default is to be another.

    Raises:
        OptionError: A value has the wrong type or is not possible.
    """
    other = defaults or {}
    specs = [dataclasses.replace(each, default=other.get(each.name, each.default)) for each in PARAMETERS]
    values = {spec.name: _declare(node, spec) for spec in specs}
    sim_time = node.get_parameter(SIM_TIME).value
    node.add_on_set_parameters_callback(lambda parameters: _refuse_changes(parameters, sim_time=sim_time))
    return values


def options_from(values: Mapping[str, Any], *, node_namespace: str) -> NodeOptions:
    """Returns the options that parameters make.

    Args:
        values: As `declare` returns them.
        node_namespace: The node's own namespace, which is the outermost unless the parameter names one.

    Raises:
        OptionError: A value is not possible; the message names what is.
    """
    plan_values = {
        each.name: values[each.name] for each in dataclasses.fields(PlanOptions) if each.name in values
    }
    plan_values["namespace"] = values["namespace"] or node_namespace.strip("/")
    plan_values["schema_resolvers"] = tuple(values["schema_resolvers"])
    plan_values["contexts"] = parse_contexts(values["contexts"])
    plan_values["frames_from_xforms"] = FRAMES_FROM_XFORMS[values["frames_from_xforms"]]
    return NodeOptions(
        asset=values["asset"],
        strict=values["strict"],
        watch=values["watch"],
        backend=values["backend"],
        backend_options=_backend_options(values),
        time=TimeOptions(
            real_time_factor=values["real_time_factor"],
            paused=values["start_paused"],
            publish_clock=values["publish_clock"],
            clock_rate=values["clock_rate"],
        ),
        tf_rate=_tf_rate(values),
        description=DescriptionOptions(
            publish=values["publish_description"], meshes=values["mesh_directory"] or None
        ),
        diagnostics=DiagnosticsOptions(
            publish=values["publish_diagnostics"], rate=values["diagnostics_rate"]
        ),
        handlers=_handlers(values["handlers"]),
        spawn_roots=tuple(values["spawn_roots"]),
        remote_control=values["remote_control"],
        read=ReadOptions(
            variants=parse_variants(values["variants"]),
            payloads=values["payloads"],
            packages=parse_packages(values["packages"]),
            max_prims=values["max_prims"],
            max_layers=values["max_layers"],
            max_bytes=values["max_bytes"],
            max_nesting=values["max_nesting"],
            max_arcs=values["max_arcs"],
            reload_timeout=values["reload_timeout"],
        ),
        plan=PlanOptions(**plan_values),
    )


def remote_refusal(remote_control: RemoteControl, names: Collection[str]) -> str:
    """Return why parameters with these names cannot be set while the bridge runs, "" where they can."""
    if remote_control == "all" or not names:
        return ""
    return f"remote_control is {remote_control}: {', '.join(sorted(names)[:_NAMES_SHOWN])} cannot be set"


def _backend_options(values: Mapping[str, Any]) -> dict[str, str]:
    given = parse_key_values(values["backend_options"], what="backend option")
    if values["ignore_timestamp"] and values["backend"] == JOINT_STATES:
        given = {"ignore_timestamp": "true", **given}
    return given


def _tf_rate(values: Mapping[str, Any]) -> float | None:
    if values["ignore_timestamp"] and values["backend"] == JOINT_STATES:
        # robot_state_publisher finds out from stamps how often it publishes.
        return None
    return float(values["publish_frequency"] or values["tf_rate"])


def _handlers(names: Sequence[str]) -> tuple[str, ...] | None:
    if not names:
        return None
    return () if list(names) == [NO_HANDLERS] else tuple(names)


def overlaid(base: Any, over: Any) -> Any:
    """Returns options `base` with every field of `over` that is not at its default: what is typed wins."""
    if over is None:
        return base
    default = type(over)()
    changed = {
        each.name: getattr(over, each.name)
        for each in dataclasses.fields(over)
        if getattr(over, each.name) != getattr(default, each.name)
    }
    return dataclasses.replace(base, **changed)


def _declare(node: Any, spec: ParameterSpec) -> Any:
    default = _NO_STRINGS if spec.default is None else spec.default
    try:
        value = node.declare_parameter(spec.name, default, spec.descriptor()).value
    except ParameterException as error:
        possible = "" if spec.range is None else f" (possible: {spec.range})"
        raise OptionError(f"parameter {spec.name}: {' '.join(str(error).split())}{possible}") from error
    if spec.range is not None:
        # The descriptor knows no gap between 0 and the lowest number.
        spec.range.check(f"parameter {spec.name}:", value)
    # rclpy lets an array of nothing in a parameter file, `[]`, unset the parameter.
    value = spec.text(value)
    given = [each for each in value or () if each] if spec.kind == "strings" else [value]
    for each in given if spec.options else ():
        if each not in spec.options:
            raise OptionError(
                f"parameter {spec.name}: {each!r} is not possible; there are: {choices(spec.options)}"
            )
    return given if spec.kind == "strings" else value


def _refuse_changes(parameters: Sequence[Any], *, sim_time: bool) -> Any:
    for parameter in parameters:
        if parameter.name == SIM_TIME and parameter.value != sim_time:
            # Loops, schedules and the choice of a backend rest on it.
            return SetParametersResult(successful=False, reason=_read_at_start(SIM_TIME))
        spec = _BY_NAME.get(parameter.name)
        if spec is None:
            continue
        if spec.range is not None and parameter.value is not None and parameter.value not in spec.range:
            reason = f"{parameter.name}: {shown(parameter.value)} is not possible: {spec.range}"
            return SetParametersResult(successful=False, reason=reason)
        if not spec.dynamic:
            return SetParametersResult(successful=False, reason=escaped(_read_at_start(parameter.name)))
    return SetParametersResult(successful=True)


def _read_at_start(name: str) -> str:
    return f"{name} is read when the bridge starts: start it again with another value"
