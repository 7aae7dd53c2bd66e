"""Options: each one once, as a field of a group, with its type, range, default and help.

The groups are `ReadOptions` (open a stage), `PlanOptions` (plan it), `BridgeOptions` (run the plan), and for nodes
`NodeOptions`, which has all of them. `OPTIONS` lists the node parameters. `tools/reference_tables.py`
writes the tables of the reference from it; `config/bridge.yaml` and the launch files are checked against it by tests.
"""

from __future__ import annotations

# ruff: noqa: RUF009 - the call makes the dataclass field
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeVar, cast, get_args

from usd_ros_bridge import ranges
from usd_ros_bridge.errors import OptionError, alternatives, quoted
from usd_ros_bridge.ranges import NumberRange, shown
from usd_ros_bridge.web_requests import is_loopback, parse_origins

Payloads = Literal["all", "none"]
TfOutput = Literal["namespaced", "global", "both", "shared"]
BaseTransform = Literal["auto", "ground_truth", "odometry", "none"]
SystemDefaultQos = Literal["resolved", "rmw"]
Interfaces = Literal["all", "none"]
BeyondLimits = Literal["reject", "clamp"]
MasslessBodies = Literal["auto", "unit_mass", "weightless"]
FramesFromXforms = bool | Literal["auto"]
RemoteControl = Literal["all", "read_only", "none"]
MeshUriKind = Literal["auto", "package", "file", "service", "http"]

FOXGLOVE_PORT: Final = 8765
"""Port that the Foxglove app suggests."""

SOLVERS: tuple[str, ...] = ("newton", "physx", "mjc")

Kind = Literal["string", "strings", "bool", "int", "double"]
_KINDS: Final[Mapping[type, Kind]] = {
    bool: "bool",
    int: "int",
    float: "double",
    str: "string",
    tuple: "strings",
    dict: "strings",
}
_FRAMES_FROM_XFORMS: Final[Mapping[str, FramesFromXforms]] = {"auto": "auto", "true": True, "false": False}
_ROW = "option"
_MAX_PORT: Final = 65535
_LOOPBACK: Final = "127.0.0.1"
_Group = TypeVar("_Group")


@dataclass(frozen=True, slots=True)
class VariantSelection:
    """Selection of a variant, set on the session layer before composition."""

    prim_path: str
    variant_set: str
    variant: str

    def __str__(self) -> str:
        return f"{self.prim_path}:{self.variant_set}={self.variant}"


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantSet:
    """A variant set of a prim, as it is composed.

    Attributes:
        prim_path: The prim.
        name: Name of the set.
        variants: Names of its variants.
        selected: The one that is selected, "" for none.
    """

    prim_path: str
    name: str
    variants: tuple[str, ...]
    selected: str


# --- Texts of command lines and parameters ---------------------------------------------------------------------
def parse_variants(texts: Iterable[str]) -> tuple[VariantSelection, ...]:
    """Return selections from texts of the form `/Prim/Path:set=choice`.

    Raises:
        OptionError: A text has another form.
    """
    selections = []
    for text in texts:
        target, equals, choice = text.rpartition("=")
        path, colon, name = target.rpartition(":")
        if not (equals and colon and path.startswith("/") and name):
            raise OptionError(f"variant {text!r} has not the form /Prim/Path:set=choice")
        selections.append(VariantSelection(path, name, choice))
    return tuple(selections)


def variant_selections(
    given: Mapping[str, str] | Iterable[VariantSelection | str],
) -> tuple[VariantSelection, ...]:
    """Return selections from what a program gives.

    Args:
        given: Choices by `/Prim/Path:set`; or selections, or their texts (`/Prim/Path:set=choice`).

    Raises:
        OptionError: A key or a text has another form.
    """
    if isinstance(given, Mapping):
        return parse_variants(f"{target}={choice}" for target, choice in given.items())
    selections: list[VariantSelection] = []
    for each in (given,) if isinstance(given, str) else given:
        selections += (each,) if isinstance(each, VariantSelection) else parse_variants((each,))
    return tuple(selections)


def parse_contexts(texts: Iterable[str]) -> tuple[str, ...]:
    """Return selectors of robots from texts that each hold one or, separated by commas, several.

    Raises:
        OptionError: A selector has braces, or brackets that do not match.
    """
    entries = tuple(entry for text in texts for entry in (each.strip() for each in text.split(",")) if entry)
    for entry in entries:
        if "{" in entry or "}" in entry:
            raise OptionError(
                f"contexts: {quoted(entry)} has braces: write the alternatives, separated by commas"
            )
        if not {"[", "]"}.isdisjoint(re.sub(r"\[[^][]+\]", "", entry)):
            raise OptionError(
                f"contexts: {quoted(entry)} has a bracket without its other one; commas separate selectors, "
                "also within brackets"
            )
        if not entry.removeprefix("!").strip():
            raise OptionError(f"contexts: {quoted(entry)} excludes nothing: name a robot after the !")
    return entries


class ShardNumber(NamedTuple):
    """One of `total` equal parts of a fleet. Numbers begin at 1."""

    number: int
    total: int


def parse_shard(text: str) -> ShardNumber | None:
    """Return the meaning of `K/N`: part K of N, from 1; None for an empty text.

    Raises:
        OptionError: It is something else.
    """
    if not text.strip():
        return None
    found = re.fullmatch(r"\s*([0-9]{1,9})\s*/\s*([0-9]{1,9})\s*", text)
    shard = ShardNumber(int(found[1]), int(found[2])) if found else ShardNumber(0, 0)
    if not 1 <= shard.number <= shard.total:
        raise OptionError(f"shard {quoted(text)} is not possible: write K/N, part K of N, as 1/4 to 4/4 are")
    return shard


def check_shard(shard: str, backend: str) -> None:
    """Refuse to simulate a part of a fleet, for a backend that owns time.

    Args:
        shard: As `parse_shard` takes it.
        backend: Name of the backend, for the message.

    Raises:
        OptionError: The shard is one of several.
    """
    parsed = parse_shard(shard)
    if parsed is not None and parsed.total > 1:
        raise OptionError(
            f"shard {shard}: the backend {backend} owns time, and simulations in several processes share no world: "
            "simulate the fleet in one process, or independent parts of it with a sweep or with contexts; shards take "
            "kinematic, joint_states, playback or array"
        )


def _shard_text(text: str) -> str:
    shard = parse_shard(text)
    return f"{shard.number}/{shard.total}" if shard else ""


def parse_packages(texts: Iterable[str]) -> dict[str, str]:
    """Return directories by package name from texts of the form `name=directory`.

    Raises:
        OptionError: A text has another form, or names something that is no directory.
    """
    packages = {}
    for text in texts:
        name, equals, directory = text.partition("=")
        if not (equals and name and directory):
            raise OptionError(f"package {text!r} has not the form name=directory")
        path = Path(directory).expanduser()
        if not path.is_dir():
            raise OptionError(f"package {name!r}: {directory!r} is not a directory")
        packages[name] = str(path.resolve())
    return packages


def parse_key_values(texts: Iterable[str], *, what: str) -> dict[str, str]:
    """Return texts of the form `key=value` as a dict; `what` names them in the error.

    Raises:
        OptionError: A text has another form.
    """
    values = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (equals and key):
            raise OptionError(f"{what} {text!r} has not the form key=value")
        values[key] = value
    return values


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshUris:
    """How viewers get the mesh files of descriptions.

    Attributes:
        kind: Where the URIs lead. auto: to a package where possible, else to files; RViz may ask the bridge for both.
        host: Address of the HTTP server.
        port: Its port, 0 for a free one.
    """

    kind: MeshUriKind
    host: str = _LOOPBACK
    port: int = 0

    @property
    def is_loopback(self) -> bool:
        """Return whether only this machine reaches the HTTP server."""
        return is_loopback(self.host)


def parse_mesh_uris(text: str) -> MeshUris:
    """Return the meaning of `auto`, `package`, `file`, `service`, `http`, `http:PORT` or `http:ADDRESS:PORT`.

    Raises:
        OptionError: It is something else.
    """
    if text in get_args(MeshUriKind):
        return MeshUris(kind=cast(MeshUriKind, text))
    kind, _, rest = text.partition(":")
    if kind != "http" or not rest:
        possible = (*get_args(MeshUriKind), "http:PORT", "http:ADDRESS:PORT")
        raise OptionError(f"mesh_uris {quoted(text)} is not possible; {alternatives(text, possible)}")
    host, _, port = rest.rpartition(":")
    host = host.strip("[]") or _LOOPBACK
    if not (re.fullmatch(r"[0-9]{1,5}", port) and int(port) <= _MAX_PORT):
        raise OptionError(
            f"mesh_uris {quoted(text)}: {quoted(port)} is no port: use 0 (a free one) to {_MAX_PORT}"
        )
    try:
        is_any = host != "localhost" and ip_address(host).is_unspecified
    except ValueError as error:
        raise OptionError(
            f"mesh_uris {quoted(text)}: {quoted(host)} is no IP address: give one of this machine"
        ) from error
    if is_any:
        raise OptionError(
            f"mesh_uris {quoted(text)}: descriptions need the address by which viewers reach this machine, not {host}"
        )
    return MeshUris(kind="http", host=host, port=int(port))


def _mesh_uris_text(text: str) -> str:
    parse_mesh_uris(text)
    return text


# --- The table -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """Row of the table: an option, its values and their sources.

    Attributes:
        name: Field of the group, and node parameter.
        kind: Type of the parameter.
        default: Default of the field.
        help: Effect, in one line.
        range: Possible numbers, with their unit.
        choices: Possible texts; empty: any.
        flag: Option of the command line; "": none.
        metavar: What the command line's help shows for the value.
        bare: Value of the option on the command line without a value; None: it needs one.
        launch: Launch argument of `bridge.launch.py`, too.
        live: May change while the bridge runs.
        read_only: Declare the parameter read-only. Other parameters that are not live refuse a change with a reason.
        takes_bool: Accept a bool for the texts `true` and `false`, because YAML converts them.
        parse: Convert the value of a parameter or of the command line to that of the field.
    """

    name: str = ""
    kind: Kind
    default: Any
    help: str
    range: NumberRange | None = None
    choices: tuple[str, ...] = ()
    flag: str = ""
    metavar: str = ""
    bare: int | None = None
    launch: bool = False
    live: bool = False
    read_only: bool = False
    takes_bool: bool = False
    parse: Callable[[Any], Any] | None = None

    @property
    def parameter_default(self) -> Any:
        """Default as a parameter. ROS 2 has no type for an empty list: it is written as ['']."""
        if self.kind == "strings":
            return list(self.default or ()) or [""]
        return "" if self.default is None else self.default

    def normal(self, value: Any) -> Any:
        """Return a value in the normal form of its kind: lists without empty texts, texts for bools."""
        if self.kind == "strings":
            return [each for each in value or () if each]
        return str(value).lower() if self.takes_bool and isinstance(value, bool) else value

    def fault(self, value: Any) -> str:
        """Return why a value of the right type is not possible, "" if it is."""
        if self.range is not None and value not in self.range:
            return f"{shown(value)} is not possible: {self.range}"
        normal = self.normal(value)
        for each in (normal if self.kind == "strings" else [normal]) if self.choices else ():
            if each not in self.choices:
                return f"{quoted(each)} is not possible; {alternatives(each, self.choices)}"
        return ""

    def value(self, given: Any) -> Any:
        """Convert the value of a parameter or of the command line to that of the field.

        Raises:
            OptionError: A text has the wrong form.
        """
        normal = self.normal(given)
        if self.parse is not None:
            return self.parse(normal)
        return tuple(normal) if self.kind == "strings" else normal


def _parameter(default: Any, help: str, *, kind: Kind | None = None, **more: Any) -> Any:  # noqa: A002
    """Return a field that is a node parameter. `more`: the attributes of `Option`."""
    row = Option(kind=kind or _KINDS[type(default)], default=default, help=help, **more)
    if isinstance(default, dict):
        return field(default_factory=dict, metadata={_ROW: row})
    return field(default=default, metadata={_ROW: row})


def _limit(default: int, what: str, flag: str) -> Any:
    return _parameter(
        default,
        f"Refuse an asset with more {what}.",
        range=ranges.LIMIT,
        flag=flag,
        metavar="NUMBER",
        launch=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Options for opening a stage.

    Attributes:
        private_copies: Read layers from private copies: others may write the files in place at any time.
    """

    packages: Mapping[str, str] = _parameter(
        {},
        "Directories of package://, as name=directory, searched before the ament index.",
        flag="--package",
        metavar="NAME=DIRECTORY",
        launch=True,
        read_only=True,
        parse=parse_packages,
    )
    variants: tuple[VariantSelection, ...] = _parameter(
        (),
        "Variant selections, as /Prim/Path:set=choice. They override the authored ones.",
        flag="--variant",
        metavar="/PRIM:SET=CHOICE",
        launch=True,
        live=True,
        parse=parse_variants,
    )
    payloads: Payloads = _parameter(
        "all", "Load all payloads, or none.", choices=get_args(Payloads), flag="--payloads", launch=True
    )
    reload_timeout: float = _parameter(
        10.0,
        "Longest time to read the asset's files again, s.",
        range=ranges.RELOAD_TIME,
        launch=True,
    )
    max_prims: int = _limit(2_000_000, "prims of the composed stage", "--max-prims")
    max_layers: int = _limit(10_000, "layer files", "--max-layers")
    max_bytes: int = _limit(2_000_000_000, "bytes in all layer files", "--max-bytes")
    max_nesting: int = _limit(10_000, "levels of prims, or of brackets in a text layer", "--max-nesting")
    max_arcs: int = _limit(500, "composition arcs of one prim, or API schemas applied to it", "--max-arcs")
    private_copies: bool = False


Engine = Literal["mujoco", "newton"]
"""Backends that simulate physics, which are columns of the ledger of what is simulated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """Options for planning.

    Attributes:
        controller_rate: As `BridgeOptions.controller_rate`; the rate of `external_joint_states`.
        engine: The engine for which planning reports what is not simulated.
        enabled: By prim path of an interface: enable it, whatever `starts_enabled` says.
        rates: By prim path of a publisher: its rate in Hz instead of the authored one.
        spawned: Prim paths that were spawned while the bridge runs: served whatever `contexts` and `shard` say.
    """

    namespace: str = _parameter(
        "", "Outermost namespace of relative names; empty: the namespace of the node.", flag="--namespace"
    )
    interfaces: Interfaces = _parameter(
        "all",
        "Serve the asset's topics, services, actions and controllers; none: only transforms and descriptions.",
        choices=get_args(Interfaces),
        flag="--interfaces",
        launch=True,
        live=True,
    )
    contexts: tuple[str, ...] = _parameter(
        (),
        "Serve only these robots: prim paths, namespaces or globs of them; /: interfaces of no robot; empty: all.",
        flag="--contexts",
        metavar="ROBOT[,ROBOT...]",
        launch=True,
        live=True,
        parse=parse_contexts,
    )
    shard: str = _parameter(
        "",
        "Serve only part K of N of the robots in contexts, as K/N; empty: all of them.",
        flag="--shard",
        metavar="K/N",
        launch=True,
        live=True,
        parse=_shard_text,
    )
    implicit_context: bool = _parameter(
        True,
        "Treat the default prim as a context if the asset has none.",
        flag="--no-implicit-context",
        live=True,
    )
    implicit_interfaces: bool = _parameter(
        True, "Give a robot without interfaces joint_states and joint_commands.", live=True
    )
    isaac_names: bool = _parameter(
        False, "Use isaac:nameOverride on robots with ROS schemas, too.", live=True
    )
    # `auto` is for URDF converters, which author links without mass as Xforms.
    frames_from_xforms: FramesFromXforms = _parameter(
        "auto",
        "Plain Xforms that become frames: links without mass (auto), all directly below bodies (true), none (false).",
        choices=tuple(_FRAMES_FROM_XFORMS),
        live=True,
        takes_bool=True,
        parse=_FRAMES_FROM_XFORMS.__getitem__,
    )
    schema_resolvers: tuple[str, ...] = _parameter(
        SOLVERS, "Solvers whose attributes are read, by priority.", choices=SOLVERS, live=True
    )
    system_default_qos: SystemDefaultQos = _parameter(
        "resolved",
        "Resolve system_default QoS by the bridge's own rule, or leave it to the middleware (rmw).",
        choices=get_args(SystemDefaultQos),
        live=True,
    )
    publish_tf: bool = _parameter(True, "Broadcast transforms.", launch=True, live=True)
    tf_output: TfOutput = _parameter(
        "namespaced",
        "Send transforms to the robot's namespace, to /tf with prefixed frame ids (global), to both, or to /tf with "
        "plain frame ids (shared).",
        choices=get_args(TfOutput),
        flag="--tf-output",
        launch=True,
        live=True,
    )
    frame_prefix: str = _parameter(
        "",
        "Prefix of every frame id, as in robot_state_publisher.",
        flag="--frame-prefix",
        metavar="PREFIX",
        launch=True,
        live=True,
    )
    base_transform: BaseTransform = _parameter(
        "auto",
        "Source of the base's transform; auto: as the context says, else odometry of a differential drive, else "
        "ground_truth.",
        choices=get_args(BaseTransform),
        flag="--base-transform",
        launch=True,
        live=True,
    )
    beyond_limits: BeyondLimits = _parameter(
        "reject",
        "Reject goals and trajectories with positions beyond a joint's limits, or clamp them.",
        choices=get_args(BeyondLimits),
        flag="--beyond-limits",
        launch=True,
        live=True,
    )
    massless_bodies: MasslessBodies = _parameter(
        "auto",
        "Mass of bodies without mass: unit_mass (1 kg without colliders) or weightless; auto: as the asset says, "
        "else unit_mass.",
        choices=get_args(MasslessBodies),
        flag="--massless-bodies",
        launch=True,
        live=True,
    )
    # The names of the topics are the defaults of ros2_control's topic-based hardware interfaces.
    external_joint_states: str = _parameter(
        "robot_joint_states", "Topic of joint states for external controllers."
    )
    external_joint_commands: str = _parameter(
        "robot_joint_commands", "Topic of joint commands of external controllers."
    )
    controller_rate: float = 100.0
    engine: Engine = "mujoco"
    enabled: Mapping[str, bool] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)
    spawned: tuple[str, ...] = ()


def _handlers(names: Sequence[str]) -> tuple[str, ...] | None:
    # An empty list means all: a ROS 2 parameter cannot be left out.
    return (() if list(names) == ["none"] else tuple(names)) if names else None


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeOptions:
    """Configure a `Bridge`.

    Options of time have an effect if the backend owns time. Options of the node have none if the host hands one over.

    Attributes:
        follow_edits: Apply edits of the plan's stage while the bridge runs.
        scene_edits: Let built-in services edit the session layer of a stage that the caller opened.
        publish_unmatched: Publish without subscribers, too. Benchmarks need this.
        seed: Seed for anything random in the backend.
        queue_depth: Samples kept per subscription between two ticks; the newest win.
        threaded: Run callbacks in background threads; False: in `Bridge.poll`.
        node_name: Name of the bridge's own node.
        node_namespace: Namespace of the bridge's own node. `PlanOptions.namespace` is that of the interfaces.
        domain_id: Domain of interfaces that name none; None: that of the process (ROS_DOMAIN_ID) or the host's node.
        use_sim_time: Follow /clock; None: as `parameter_overrides` and `ros_args` say.
        parameter_overrides: rclpy Parameters for the bridge's own node.
        ros_args: ROS arguments (`--ros-args -r ...`) for the bridge's own contexts.
    """

    backend_options: Mapping[str, str] = _parameter(
        {},
        "Options of the backend, as key=value.",
        flag="--backend-option",
        metavar="KEY=VALUE",
        parse=partial(parse_key_values, what="backend option"),
    )
    real_time_factor: float = _parameter(
        1.0,
        "Seconds of simulated time in a second; 0: as many as possible.",
        range=ranges.FACTOR,
        flag="--real-time-factor",
        metavar="FACTOR",
        launch=True,
        live=True,
    )
    start_paused: bool = _parameter(False, "Start with simulated time paused.", flag="--paused", launch=True)
    publish_clock: bool = _parameter(True, "Publish simulated time on /clock.", launch=True)
    clock_rate: float = _parameter(
        100.0, "Highest rate of /clock, Hz of simulated time.", range=ranges.RATE, launch=True
    )
    simulation_services: bool = _parameter(
        True, "Offer the services of simulation_interfaces if the backend owns time.", launch=True
    )
    spawn_roots: Sequence[str] = _parameter(
        (), "Directories whose USD files simulation_interfaces may spawn.", launch=True, read_only=True
    )
    remote_control: RemoteControl = _parameter(
        "all",
        "What other nodes may do through the node's services and parameters: all, read_only or none.",
        choices=get_args(RemoteControl),
        launch=True,
        read_only=True,
    )
    watch: bool = _parameter(
        False, "Read the asset's files again when they change on disk.", flag="--watch", launch=True
    )
    # None: at every step, which only hosts can ask for.
    tf_rate: float | None = _parameter(
        50.0, "Rate of moving transforms, Hz.", range=ranges.RATE, launch=True, live=True
    )
    publish_description: bool = _parameter(
        True, "Publish each robot as URDF on robot_description in its namespace.", launch=True
    )
    mesh_directory: str | os.PathLike[str] | None = _parameter(
        None,
        "Directory for the mesh files of descriptions; empty: the user's cache.",
        kind="string",
        launch=True,
        parse=lambda text: text or None,
    )
    mesh_uris: str = _parameter(
        "auto",
        "URIs of mesh files: auto, package, file, service, http, http:PORT or http:ADDRESS:PORT.",
        flag="--mesh-uris",
        metavar="URIS",
        launch=True,
        parse=_mesh_uris_text,
    )
    publish_plan: bool = _parameter(
        True, "Publish the summary of the plan on ~/plan once everything is ready.", launch=True
    )
    publish_diagnostics: bool = _parameter(True, "Publish /diagnostics.", launch=True)
    diagnostics_rate: float = _parameter(
        1.0, "Rate of /diagnostics, Hz of wall time.", range=ranges.DIAGNOSTICS_RATE
    )
    controller_rate: float = _parameter(
        100.0, "Lowest rate of controllers that have something to do, Hz.", range=ranges.RATE, launch=True
    )
    record: str | os.PathLike[str] | None = _parameter(
        None,
        "Record all messages that the bridge publishes to this MCAP file; empty: record nothing.",
        kind="string",
        flag="--record",
        metavar="FILE.mcap",
        launch=True,
        parse=lambda text: text or None,
    )
    duration: float = _parameter(
        0.0,
        "End after this much bridge time, s; 0: never.",
        range=ranges.DURATION,
        flag="--duration",
        metavar="SECONDS",
        launch=True,
    )
    foxglove: int = _parameter(
        -1,
        "Serve the Foxglove app, which only looks without foxglove_control, on this port; 0: any port, -1: do not.",
        range=ranges.PORT,
        flag="--foxglove",
        metavar="[PORT]",
        bare=FOXGLOVE_PORT,
        launch=True,
    )
    foxglove_host: str = _parameter(
        "127.0.0.1",
        "Address of the server for Foxglove. Every program that reaches it sees everything, and drives the robots with "
        "foxglove_control; web pages do only if their origin is allowed.",
        flag="--foxglove-host",
        metavar="ADDRESS",
        launch=True,
    )
    foxglove_control: bool = _parameter(
        False,
        "Let Foxglove apps drive: publish, call services, get and set parameters.",
        flag="--foxglove-control",
        launch=True,
    )
    foxglove_origins: Sequence[str] = _parameter(
        (),
        "Origins of further web pages that may connect to the server for Foxglove, as https://lichtblick.example.",
        flag="--foxglove-origin",
        metavar="ORIGIN",
        launch=True,
        parse=parse_origins,
    )
    handlers: Sequence[str] | None = _parameter(
        None, "Installed handlers to use; empty: all, none: none.", kind="strings", parse=_handlers
    )
    follow_edits: bool = True
    scene_edits: bool = False
    publish_unmatched: bool = False
    seed: int = 0
    queue_depth: int = 100
    threaded: bool = True
    node_name: str = "usd_ros_bridge"
    node_namespace: str | None = None
    domain_id: int | None = None
    use_sim_time: bool | None = None
    parameter_overrides: Sequence[Any] = ()
    ros_args: Sequence[str] = ()

    def check(self) -> None:
        """Check the numbers and texts.

        Raises:
            OptionError: One is not possible.
        """
        for row in rows(BridgeOptions):
            value = getattr(self, row.name)
            if value is not None and (fault := row.fault(value)):
                raise OptionError(f"{row.name} {fault}")
        parse_mesh_uris(self.mesh_uris)
        parse_origins(self.foxglove_origins)


DEGRADED_CHOICES: Final = ("warn", "error")
"""How to treat an asset with properties that are not simulated as authored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """Options of a bridge node: its parameters."""

    asset: str = _parameter(
        "", "The OpenUSD asset: a path or package://name/path.", launch=True, read_only=True
    )
    read: ReadOptions = field(default_factory=ReadOptions)
    strict: bool = _parameter(
        False, "Refuse an asset with errors: exit with status 1.", flag="--strict", launch=True
    )
    degraded: str = _parameter(
        "warn",
        "How to treat an asset with properties that are not simulated as authored: warn, or exit with status 1.",
        choices=DEGRADED_CHOICES,
        flag="--degraded",
        launch=True,
    )
    backend: str = _parameter(
        "auto",
        "Source of the robot's state; auto: mujoco if forces matter, else kinematic.",
        flag="--backend",
        launch=True,
    )
    bridge: BridgeOptions = field(default_factory=BridgeOptions)
    publish_frequency: float = _parameter(
        0.0,
        "robot_state_publisher's name for tf_rate; it has precedence unless it is 0.",
        range=ranges.FREQUENCY,
        live=True,
    )
    ignore_timestamp: bool = _parameter(
        False, "As in robot_state_publisher: the backend joint_states uses every message, however old."
    )
    plan: PlanOptions = field(default_factory=PlanOptions)


def rows(group: type) -> Iterator[Option]:
    """Yield the node parameters among the fields of a group and of the groups in it, in order."""
    for each in fields(group):
        if _ROW in each.metadata:
            yield replace(each.metadata[_ROW], name=each.name)
        elif hasattr(group := cast(Any, each.default_factory), "__dataclass_fields__"):
            yield from rows(group)


OPTIONS: Final[Mapping[str, Option]] = {row.name: row for row in rows(NodeOptions)}
"""Node parameters by name."""


def make_options(group: type[_Group], values: Mapping[str, Any]) -> _Group:
    """Make a group from values of its fields; other values are ignored, fields without a value have their default."""
    names: tuple[Field[Any], ...] = fields(group)  # type: ignore[arg-type]
    return group(**{each.name: values[each.name] for each in names if each.name in values})


def make_node_options(values: Mapping[str, Any], *, node_namespace: str) -> NodeOptions:
    """Make the options of a node.

    Args:
        values: Value of each field that is a parameter.
        node_namespace: The node's own namespace: the outermost one unless `namespace` is set.
    """
    given = dict(values)
    given["namespace"] = values["namespace"] or node_namespace.strip("/")
    if values["ignore_timestamp"] and values["backend"] == "joint_states":
        given["backend_options"] = {"ignore_timestamp": "true", **values["backend_options"]}
        # robot_state_publisher derives its rate from the stamps.
        given["tf_rate"] = None
    elif values["publish_frequency"]:
        given["tf_rate"] = values["publish_frequency"]
    if values["backend"] in get_args(Engine):
        given["engine"] = values["backend"]
    # Editors may write watched files in place at any time.
    given["private_copies"] = values["watch"]
    groups = {
        "read": make_options(ReadOptions, given),
        "bridge": make_options(BridgeOptions, given),
        "plan": make_options(PlanOptions, given),
    }
    return make_options(NodeOptions, given | groups)


# --- Nodes -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """Node with the bridge's parameters.

    Attributes:
        node_name: Default name of the node.
        defaults: Parameters with a default that differs from the bridge's.
        description_parameter: Add a parameter with the text of the description.
    """

    node_name: str
    defaults: Mapping[str, object] = field(default_factory=dict)
    description_parameter: bool = False


BRIDGE = Role(node_name="usd_ros_bridge")

ROBOT_STATE_PUBLISHER = Role(
    node_name="robot_state_publisher",
    defaults={
        "backend": "joint_states",
        "publish_frequency": 20.0,
        "tf_output": "shared",
        "base_transform": "none",
        "interfaces": "none",
    },
    description_parameter=True,
)
"""Like the C++ node: only joint states in, /tf, /tf_static and the description out. Other nodes publish the pose of the
robot in the world."""
