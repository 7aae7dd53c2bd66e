"""Topics, services and actions: validated, named, typed, enabled (REP 0158 sections 2.2 to 2.6 and 2.9).

Those that the asset declares, then those that the bridge adds, then what the caller overrides by prim path.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from usd_ros_bridge.errors import OptionError, did_you_mean, nearest, one_of, question_about, quoted
from usd_ros_bridge.model.diagnostics import CONTAINED, DiagnosticCollector
from usd_ros_bridge.model.message_types import (
    CLOCK,
    JOINT_STATE,
    MESSAGE_TYPES,
    ODOMETRY,
    TypeCatalog,
    TypeListing,
    is_of_simulation,
    message_type,
)
from usd_ros_bridge.model.plan import STARTS_DISABLED, SWITCHED_OFF, InterfaceKind, QosPlan
from usd_ros_bridge.model.records import (
    ActionRecord,
    ActuatedRecord,
    ControllerRecord,
    ExternalControlRecord,
    JointStateBroadcasterRecord,
    ServiceRecord,
    TopicRecord,
)
from usd_ros_bridge.model.stage import StageRecords
from usd_ros_bridge.options import PlanOptions
from usd_ros_bridge.planning import names
from usd_ros_bridge.planning.contexts import Context, Contexts
from usd_ros_bridge.planning.kinematics.kinematic_model import KinematicModel
from usd_ros_bridge.planning.names import Nearest, is_below
from usd_ros_bridge.planning.qos import MATCHED, resolve_qos
from usd_ros_bridge.planning.stage_index import StageIndex
from usd_ros_bridge.ranges import RATE

SOURCE: Final = "usd_ros_bridge:source"
OVERRIDE: Final = "ros:topic:override_frame_id"
CHILD: Final = "usd_ros_bridge:odometry:child_frame_id"


def source_fault(record: TopicRecord, types: Mapping[str, str]) -> tuple[str, str]:
    """Return the fault of the source of a publisher and a remedy, ("", "") for none.

    Args:
        record: The topic.
        types: USD value type by path of what topics name as sources, "" for paths that are not attributes.
    """
    targets = record.source or ()
    if len(targets) != 1:
        return f"the source names {len(targets)} targets, and a publisher shows one", "name one attribute"
    target, usual = targets[0], message_type(record.type or "").shows
    if not usual:
        return (
            f"{quoted(record.type or '')} shows no value of an attribute",
            "use a type of std_msgs, or remove the source",
        )
    value_type = types.get(target, "")
    if not value_type:
        return f"the source {quoted(target)} is no attribute", "target an attribute: </Prim.attribute>"
    if value_type not in usual:
        return (
            f"the source {quoted(target)} is of type {quoted(value_type)}, which a {quoted(record.type)} cannot show",
            f"use one of {', '.join(sorted(usual))}",
        )
    return "", ""


InterfaceRecord = TopicRecord | ServiceRecord | ActionRecord

_CODEC_REMEDY: Final = "repair, update or remove the plug-in; handlers and sources work without it"
_MESSAGES = "_msgs"
_GLOBAL = frozenset({"/tf", "/tf_static", "/clock", "/diagnostics", "/rosout"})
"""Topics that ROS 2 tools look for under their absolute names."""

_ROLES = {
    "topic": ("publisher", "subscription"),
    "service": ("server", "client"),
    "action": ("server", "client"),
}
_SECTION = {"topic": "2.4", "service": "2.5", "action": "2.6"}


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceDraft:
    """An interface with everything resolved that its own prim and its context decide.

    Attributes:
        kind: Which of the three.
        path: Prim path.
        role: Role as authored, "" where none is.
        name: Absolute resolved name, as far as it could be resolved.
        type: Interface type as authored.
        context: Nearest context.
        domain_id: Domain, None for the process's default.
        reason: Why it is disabled, "" where it is not.
        starts_enabled: As authored.
        publish_rate: Hz, None for everything but publishers.
        override_frame_id: As authored, made valid.
        child_frame_id: As authored for Odometry, made valid.
        qos: Resolved quality of service of a topic.
        implicit: Whether the bridge added it.
        source: Path of the attribute whose value a publisher shows, "" for none.
    """

    kind: InterfaceKind
    path: str
    role: str
    name: str
    type: str
    context: Context | None
    domain_id: int | None
    reason: str = ""
    starts_enabled: bool = True
    publish_rate: float | None = None
    override_frame_id: str = ""
    child_frame_id: str = ""
    qos: QosPlan = field(default_factory=QosPlan)
    implicit: bool = False
    source: str = ""

    @property
    def is_switchable(self) -> bool:
        """Return whether it works, or would if it were enabled."""
        return self.reason in ("", STARTS_DISABLED, SWITCHED_OFF)


def draft_interfaces(
    index: StageIndex,
    contexts: Contexts,
    options: PlanOptions,
    catalog: TypeCatalog | None,
    findings: DiagnosticCollector,
) -> list[InterfaceDraft]:
    """Return all interfaces: topics, then services, then actions, each in traversal order."""
    records = index.records
    kinds: tuple[tuple[InterfaceKind, Sequence[InterfaceRecord]], ...] = (
        ("topic", records.topics),
        ("service", records.services),
        ("action", records.actions),
    )
    drafter = _Drafter(contexts, options, catalog, records.sources, findings)
    drafts: list[InterfaceDraft] = []
    for kind, of_kind in kinds:
        for record in of_kind:
            try:
                drafts.append(drafter.draft(kind, record))
            except CONTAINED as error:
                findings.internal(record.path, "planning this interface", error)
    _check_placement(drafts, index, findings)
    _check_overridden_frames(drafts, findings)
    return drafts


def _check_overridden_frames(drafts: Iterable[InterfaceDraft], findings: DiagnosticCollector) -> None:
    """Report the frame ids of topics that have a colon: once for all of a kind."""
    of_kind: dict[tuple[str, str], dict[str, str]] = {}
    for draft in drafts:
        for frame_id, code, attribute in (
            (draft.override_frame_id, "2.4.override_frame_id", OVERRIDE),
            (draft.child_frame_id, "2.4.child_frame_id", CHILD),
        ):
            if ":" in frame_id:
                of_kind.setdefault((code, attribute), {}).setdefault(frame_id, draft.path)
    for (code, attribute), paths in of_kind.items():
        path = next(iter(paths.values()))
        findings.warning(code, path, names.colon_remark(paths), names.COLON_REMEDY, attribute=attribute)


class _Drafter:
    def __init__(
        self,
        contexts: Contexts,
        options: PlanOptions,
        catalog: TypeCatalog | None,
        sources: Mapping[str, str],
        findings: DiagnosticCollector,
    ) -> None:
        self._sources = sources
        self._contexts = contexts
        self._options = options
        self._catalog = catalog
        self._findings = findings

    def draft(self, kind: InterfaceKind, record: InterfaceRecord) -> InterfaceDraft:
        context = self._contexts.nearest(record.path)
        if context is None and self._contexts.by_path:
            self._findings.warning(
                "2.1.context",
                record.path,
                "the interface is below no RosContextAPI; it gets the node's namespace",
                "move it below the robot's root prim",
            )
        namespace = context.namespace if context else self._contexts.node_namespace
        name_fault = self._name_fault(kind, record, namespace)
        name = record.name or ""
        resolved = names.join(namespace, name) if not names.name_fault(name) else name
        absolute = name.startswith("/")
        if absolute and not name_fault:
            self._report_absolute(kind, record.path, name, namespace)
        reasons = [
            self._prohibited(record, resolved),
            context.unserved if context else "",
            "" if absolute or context is None else context.fault,
            _unusable(record),
            self._role_fault(kind, record),
            name_fault,
        ]
        # Whether a type that no asset may use is installed here is no matter.
        if not reasons[0]:
            reasons.append(self._type_fault(kind, record))
        draft = InterfaceDraft(
            kind=kind,
            path=record.path,
            role=(record.role or "")[: names.MAX_NAME],
            name=resolved[: names.MAX_NAME],
            type=(record.type or "")[: names.MAX_NAME],
            context=context,
            domain_id=context.domain_id if context else None,
            starts_enabled=record.starts_enabled is not False,
        )
        if isinstance(record, TopicRecord):
            qos, fault = resolve_qos(
                record, draft.type, resolved, self._options.system_default_qos, self._findings
            )
            reasons += [fault, self._rate_fault(record), self._source_fault(record)]
            draft = replace(
                draft,
                qos=qos,
                publish_rate=record.publish_rate if record.role == "publisher" else None,
                override_frame_id=self._frame_id(
                    record, record.override_frame_id, "2.4.override_frame_id", OVERRIDE
                ),
                child_frame_id=self._child_frame_id(record),
                source=record.source[0] if record.source and record.role == "publisher" else "",
            )
        reason = next(filter(None, reasons), "")
        if not reason and not draft.starts_enabled:
            reason = STARTS_DISABLED
        return replace(draft, reason=reason)

    def _role_fault(self, kind: InterfaceKind, record: InterfaceRecord) -> str:
        roles = _ROLES[kind]
        if record.role in roles:
            return ""
        fault = f"the role {quoted(record.role)} is unknown" if record.role else "no role is authored"
        self._error(
            f"{_SECTION[kind]}.role",
            record,
            fault,
            one_of(record.role or "", roles),
            f"ros:{kind}:role",
        )
        return fault

    def _name_fault(self, kind: InterfaceKind, record: InterfaceRecord, namespace: str) -> str:
        if record.name is None:
            fault = f"there is no name: ros:{kind}:name is not authored"
            self._error("2.3.name", record, fault, f"author ros:{kind}:name", f"ros:{kind}:name")
            return fault
        name = record.name or ""
        fault = names.name_fault(name) or names.resolved_fault(names.join(namespace, name), kind)
        if not fault:
            return ""
        fault = f"the name {quoted(name)} {fault}"
        remedy = "use letters, digits, '_' and '/', no segment starting with a digit"
        corrected = names.corrected_name(name)
        if corrected and not names.resolved_fault(names.join(namespace, corrected), kind):
            remedy = f"write {corrected}: {remedy}"
        self._error("2.3.name", record, fault, remedy, f"ros:{kind}:name")
        return fault

    def _report_absolute(self, kind: InterfaceKind, path: str, name: str, namespace: str) -> None:
        """Say that an absolute name ignores the namespace; one that is in it anyway follows no other robot."""
        if namespace == "/" or name in _GLOBAL or is_below(name, namespace):
            return
        relative = name.removeprefix("/")
        self._findings.info(
            "2.3.absolute",
            path,
            f"the absolute name {quoted(name)} ignores the namespace {namespace}",
            f"write {relative} for {names.join(namespace, relative)}",
            attribute=f"ros:{kind}:name",
        )

    def _type_fault(self, kind: InterfaceKind, record: InterfaceRecord) -> str:
        type_name = record.type or ""
        fault, remedy = names.type_fault(type_name, kind)
        if fault:
            fault = f"the type {quoted(type_name)} {fault}"
            self._error("2.3.type", record, fault, remedy, f"ros:{kind}:type")
        elif self._catalog is not None and not self._catalog.contains(type_name):
            fault, remedy = _missing_type(type_name, self._catalog, suggests=self._findings.suggests)
            self._findings.warning("2.3.type", record.path, fault, remedy, attribute=f"ros:{kind}:type")
        elif disabled := MESSAGE_TYPES.fault(type_name):
            # No reason against the interface: handlers and sources serve it.
            self._findings.warning(
                "2.3.codec", record.path, disabled, _CODEC_REMEDY, attribute=f"ros:{kind}:type"
            )
        return fault

    def _prohibited(self, record: InterfaceRecord, resolved: str) -> str:
        is_topic = isinstance(record, TopicRecord)
        clock = is_topic and (resolved == "/clock" or record.type == CLOCK)
        simulation = is_of_simulation(record.type or "")
        if not (clock or simulation):
            return ""
        what = quoted(resolved) if clock else quoted(record.type)
        fault = f"{what} is an interface of the simulator; assets must not have it"
        self._findings.error("2.9", record.path, fault, "remove the interface from the asset")
        return fault

    def _rate_fault(self, record: TopicRecord) -> str:
        if record.role != "publisher":
            return ""
        rate = record.publish_rate
        if rate in RATE:
            return ""
        missing = "no publish_rate is authored"
        fault = missing if rate is None else f"the publish_rate {quoted(rate)} is not in {RATE}"
        self._error(
            "2.4.publish_rate",
            record,
            fault,
            f"author a rate of {RATE}",
            "ros:topic:publish_rate",
        )
        return fault

    def _source_fault(self, record: TopicRecord) -> str:
        if record.source is None:
            return ""
        if record.role != "publisher":
            self._findings.warning(
                "2.4.source", record.path, "only publishers have a source", "remove it", attribute=SOURCE
            )
            return ""
        fault, remedy = source_fault(record, self._sources)
        if fault:
            self._error("2.4.source", record, fault, remedy, SOURCE)
        return fault

    def _error(self, code: str, record: InterfaceRecord, fault: str, remedy: str, attribute: str) -> None:
        """Report a fault, but for an attribute whose type reading has reported already."""
        if attribute not in record.invalid:
            self._findings.error(code, record.path, fault, remedy, attribute=attribute)

    def _frame_id(self, record: TopicRecord, authored: str | None, code: str, attribute: str) -> str:
        valid = names.valid_frame_id(authored or "")
        if valid != (authored or ""):
            self._findings.warning(
                code,
                record.path,
                f"{attribute.rpartition(':')[2]} {quoted(authored)} is no frame id; {quoted(valid)} is used",
                "use letters, digits and '_', no leading slash",
                attribute=attribute,
            )
        return valid

    def _child_frame_id(self, record: TopicRecord) -> str:
        if not record.child_frame_id:
            return ""
        if (record.type, record.role) != (ODOMETRY, "publisher"):
            self._findings.warning(
                "2.4.child_frame_id",
                record.path,
                f"only publishers of {ODOMETRY} have a child frame of their own; it is ignored",
                "remove it",
                attribute=CHILD,
            )
            return ""
        return self._frame_id(record, record.child_frame_id, "2.4.child_frame_id", CHILD)


def _types_like(type_name: str, installed: Collection[str]) -> str:
    """Return the question which type of an installed package is meant, "" if none is like it."""
    package, folder, name = type_name.split("/")
    # Names are compared: those of one package are alike for its name alone. A message is meant for a message first.
    for here in (True, False):
        names_there = (each.partition("/") for each in installed)
        by_name = {
            each[2]: "/".join((package, each[0], each[2]))
            for each in names_there
            if (each[0] == folder) is here
        }
        if close := nearest(name, by_name):
            return question_about([by_name[each] for each in close])
    return ""


def _missing_type(type_name: str, catalog: TypeCatalog, *, suggests: bool) -> tuple[str, str]:
    """Return the fault of a type that is not installed, and a remedy."""
    package, _, name = type_name.partition("/")
    remedy = f"install or source the package {package}"
    if not isinstance(catalog, TypeListing):
        return f"the type {quoted(type_name)} is not installed", remedy
    installed = catalog.types_of(package)
    if installed:
        like = _types_like(type_name, installed) if suggests else ""
        fault = f"the type {quoted(type_name)} is not installed: {package} is installed and has no {name}"
        return fault, like or f"name a type of {package}, or install a version that has it"
    # What most packages end with makes none of them alike.
    by_stem = {each.removesuffix(_MESSAGES): each for each in catalog.packages()}
    close = nearest(package.removesuffix(_MESSAGES), by_stem, count=1) if suggests else []
    like = f"did you mean {by_stem[close[0]]}?" if close else ""
    fault = f"the type {quoted(type_name)} is not installed: the package {package} is not installed"
    return fault, f"{like} else {remedy}" if like else remedy


def _unusable(record: InterfaceRecord) -> str:
    """Return why an attribute's value cannot be used, "" if all can; reading has reported it."""
    ignored = set()
    if isinstance(record, TopicRecord) and record.role == "subscription":
        ignored.add("ros:topic:publish_rate")
        if record.match_publisher:
            ignored.update(f"ros:topic:qos:{policy}" for policy in MATCHED)
    wrong = next((attribute for attribute in record.invalid if attribute not in ignored), "")
    return f"the value of {wrong} is of a type that cannot be used" if wrong else ""


def _check_placement(
    drafts: Iterable[InterfaceDraft], index: StageIndex, findings: DiagnosticCollector
) -> None:
    counts = Counter(draft.path for draft in drafts)
    for path, count in counts.items():
        if count > 1:
            findings.warning(
                "2.2.placement",
                path,
                f"{count} interfaces are on one prim",
                "give each interface a prim of its own",
            )
        if path in index.bodies:
            findings.warning(
                "2.2.placement",
                path,
                "an interface is on a rigid body itself",
                "give it a child Xform of the link, or a prim beside the bodies for the whole robot",
            )
        xform = index.records.xforms.get(path)
        if xform is not None and xform.type_name == "Camera":
            findings.warning(
                "2.8",
                path,
                "an interface is on a camera, which looks along -Z; ROS optical frames look along +Z",
                "move it to a child Xform that is turned by 180 degrees about X and has RosFrameAPI",
            )


def check_duplicates(drafts: Iterable[InterfaceDraft], findings: DiagnosticCollector) -> list[InterfaceDraft]:
    """Return the interfaces, the second of two servers with one name disabled.

    Two servers of one name cannot work; two publishers can; two types on one name cannot talk.
    """
    by_role: dict[tuple[str, str, str, int | None], InterfaceDraft] = {}
    by_name: dict[tuple[str, str, int | None], InterfaceDraft] = {}
    result = []
    for draft in drafts:
        # Interfaces that start disabled do not conflict: assets switch between them (REP 0158 section 2.3).
        if draft.reason:
            result.append(draft)
            continue
        same_name = by_name.setdefault((draft.kind, draft.name, draft.domain_id), draft)
        if same_name.type != draft.type:
            findings.warning(
                "2.3.duplicate",
                draft.path,
                f"{quoted(draft.name)} has the type {quoted(draft.type)} here and {quoted(same_name.type)} at "
                f"{same_name.path}; the two cannot talk to each other",
                _rename("type", draft),
                attribute=_named_by(draft),
            )
        first = by_role.setdefault((draft.kind, draft.role, draft.name, draft.domain_id), draft)
        if first is not draft and draft.role == "server":
            fault = f"{quoted(draft.name)} is served by {first.path} already"
            findings.error(
                "2.3.duplicate",
                draft.path,
                fault,
                "give each server a name of its own",
                attribute=f"ros:{draft.kind}:name",
            )
            result.append(replace(draft, reason=fault))
            continue
        if first is not draft and draft.role == "publisher" and first.type == draft.type:
            findings.warning(
                "2.3.duplicate",
                draft.path,
                f"{quoted(draft.name)} is published by {first.path} as well",
                _rename("publisher", draft),
                attribute=_named_by(draft),
            )
        result.append(draft)
    return result


def _named_by(draft: InterfaceDraft) -> str:
    return "" if draft.implicit else f"ros:{draft.kind}:name"


def _rename(what: str, draft: InterfaceDraft) -> str:
    if draft.implicit:
        return "name it by the parameters external_joint_states and external_joint_commands"
    return f"give each {what} a name of its own"


# --- Interfaces that the bridge adds ---------------------------------------------------------------------------

JOINT_STATES = "joint_states"
JOINT_COMMANDS = "joint_commands"
IMPLICIT_RATE = 50.0
"""Hz of implicit joint_states."""


def implicit_interfaces(
    declared: Sequence[InterfaceDraft],
    kinematics: KinematicModel,
    options: PlanOptions,
    actuators: Iterable[ActuatedRecord] = (),
) -> list[InterfaceDraft]:
    """Return joint_states and joint_commands for each robot with movable joints, where nothing is declared.

    A robot with actuators alone, as a quadrotor, has joint_commands: their names are commanded there.
    """
    if declared or not options.implicit_interfaces:
        return []
    drafts = []
    actuated = [actuator.path for actuator in actuators]
    for robot in kinematics.robots:
        context = robot.context
        pair = _pair(context.path, context, JOINT_STATES, JOINT_COMMANDS, IMPLICIT_RATE)
        if any(not kinematics.is_rigid(edge) for edge in robot.edges):
            drafts += pair
        elif any(is_below(path, context.path) for path in actuated):
            drafts += pair[1:]
    return drafts


def external_topics(
    controllers: Sequence[ControllerRecord], interfaces: Iterable[InterfaceDraft], contexts: Contexts
) -> dict[str, list[InterfaceDraft]]:
    """Return the JointState topics of each external controller (RosControlExternalAPI), by path of its prim.

    They are those on its prim and below it in the same context, but for those that a joint state broadcaster names.
    """
    result: dict[str, list[InterfaceDraft]] = {
        record.path: [] for record in controllers if isinstance(record, ExternalControlRecord)
    }
    if not result:
        return result
    owner_of = Nearest(result)
    named = {
        path
        for record in controllers
        if isinstance(record, JointStateBroadcasterRecord)
        for path in record.publisher or ()
    }
    for draft in interfaces:
        owner = owner_of(draft.path)
        is_named = draft.path in named and not draft.implicit
        if owner and draft.type == JOINT_STATE and not is_named and draft.context == contexts.nearest(owner):
            result[owner].append(draft)
    return result


def external_interfaces(
    controllers: Sequence[ControllerRecord],
    declared: Sequence[InterfaceDraft],
    contexts: Contexts,
    options: PlanOptions,
) -> list[InterfaceDraft]:
    """Return topics for external controllers that declare none: joint states out, joint commands in.

    Topic-based hardware interfaces of ros2_control talk to them by default.

    Raises:
        OptionError: One of the names, or the rate, is not possible.
    """
    for option in ("external_joint_states", "external_joint_commands"):
        name = getattr(options, option)
        fault = names.name_fault(name)
        if fault:
            raise OptionError(f"{option} {name!r} {fault}")
    RATE.check("controller_rate", options.controller_rate)
    drafts = []
    for path, own in external_topics(controllers, declared, contexts).items():
        context = contexts.nearest(path)
        if context is not None and not own:
            drafts += _pair(
                path,
                context,
                options.external_joint_states,
                options.external_joint_commands,
                options.controller_rate,
            )
    return drafts


def _pair(path: str, context: Context, states: str, commands: str, rate: float) -> list[InterfaceDraft]:
    return [
        InterfaceDraft(
            kind="topic",
            path=path,
            role=role,
            name=names.join(context.namespace, name),
            type=JOINT_STATE,
            context=context,
            domain_id=context.domain_id,
            reason=context.unserved or ("" if name.startswith("/") else context.fault),
            publish_rate=of_role,
            implicit=True,
        )
        for name, role, of_role in ((states, "publisher", rate), (commands, "subscription", None))
    ]


# --- Overrides of the caller -----------------------------------------------------------------------------------

_RATE: Final = "ros:topic:publish_rate"


def with_rates(records: StageRecords, options: PlanOptions) -> StageRecords:
    """Return records with the valid rates of the caller in place of the authored ones."""
    rates = {path: rate for path, rate in options.rates.items() if rate in RATE}
    if not rates:
        return records
    topics = [
        # Whatever is wrong with the authored rate does not matter any more.
        replace(
            topic,
            publish_rate=rates[topic.path],
            invalid=tuple(name for name in topic.invalid if name != _RATE),
        )
        if topic.path in rates and topic.role == "publisher"
        else topic
        for topic in records.topics
    ]
    return replace(records, topics=tuple(topics))


def overridden(drafts: Sequence[InterfaceDraft], options: PlanOptions) -> list[InterfaceDraft]:
    """Return interfaces, enabled and at rates as the caller overrides them; faulty ones as they are."""
    if not (options.enabled or options.rates):
        return list(drafts)
    return [_overridden(draft, options) for draft in drafts]


def _overridden(draft: InterfaceDraft, options: PlanOptions) -> InterfaceDraft:
    rate, wanted = options.rates.get(draft.path), options.enabled.get(draft.path)
    if draft.publish_rate is not None and rate is not None and rate in RATE:
        draft = replace(draft, publish_rate=rate)
    if wanted is not None and draft.is_switchable:
        draft = replace(draft, reason="" if wanted else SWITCHED_OFF)
    return draft


def _named(path: str, prims: Collection[str], remedy: str, findings: DiagnosticCollector) -> str:
    """Return a remedy for a path that is none of the prims, with those that are like it."""
    question = did_you_mean(path, prims) if path not in prims and findings.suggests else ""
    return f"{question} {remedy}" if question else remedy


def check_overrides(
    drafts: Iterable[InterfaceDraft], options: PlanOptions, findings: DiagnosticCollector
) -> None:
    """Report overrides that mean nothing here."""
    if not (options.enabled or options.rates):
        return
    roles: dict[str, set[str]] = {}
    for draft in drafts:
        roles.setdefault(draft.path, set()).add(draft.role)
    for path in options.enabled:
        if path not in roles:
            findings.warning(
                "2.3.enabled",
                path,
                "enabled is set for this path, where there is no interface",
                _named(path, roles, "name the prim of an interface", findings),
            )
    for path, rate in options.rates.items():
        if "publisher" not in roles.get(path, ()):
            findings.warning(
                "2.4.rate",
                path,
                "a rate is set for this path, where there is no publisher",
                _named(path, roles, "name the prim of a publisher", findings),
            )
        elif rate not in RATE:
            findings.warning(
                "2.4.rate",
                path,
                f"the rate {quoted(rate)} is not in {RATE}; the authored one counts",
                f"give a rate of {RATE}",
            )
