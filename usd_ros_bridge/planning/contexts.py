"""Contexts: effective namespaces, domains, parent frames, and root prims of robots (REP 0158 section 2.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, cast, get_args

from usd_ros_bridge.errors import OptionError, one_of, quoted
from usd_ros_bridge.model.diagnostics import DiagnosticCollector
from usd_ros_bridge.model.plan import WORLD
from usd_ros_bridge.model.records import ContextRecord, Record
from usd_ros_bridge.model.stage import StageRecords
from usd_ros_bridge.options import BaseTransform, PlanOptions
from usd_ros_bridge.planning import names
from usd_ros_bridge.planning.names import Nearest, is_below, parent_path, prim_name

MAX_DOMAIN = 232
"""Highest domain id whose ports DDS can compute (RTPS 2.5 section 9.6.2)."""

MAX_DOMAINS = 16
"""Domains that one process serves at most; each costs a rclpy Context with threads of its own."""


BASE_TRANSFORM: Final = "usd_ros_bridge:base_transform"


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A context with everything inherited resolved.

    Attributes:
        path: Prim path.
        namespace: Absolute effective namespace; invalid segments left out.
        fault: Why interfaces with a relative name must stay disabled, "" where they need not.
        domain_id: Effective domain id, None for the process's default.
        root: Path of the outermost context.
        parent_frame: Parent of the outermost context's frame.
        base_transform: Source of the base's transform, as authored on the outermost context, "auto" where it is not.
        label: Name that distinguishes it from its neighbours: its own namespace as one word, else its prim's name.
        unserved: Why all interfaces in it must stay disabled, "" where they need not.
    """

    path: str
    namespace: str
    fault: str
    domain_id: int | None
    root: str
    parent_frame: str
    base_transform: BaseTransform = "auto"
    label: str = ""
    unserved: str = ""


class Contexts:
    """All contexts of a stage, and the nearest one of each prim."""

    def __init__(
        self, contexts: Iterable[Context], *, implicit: bool, node_namespace: str, without_ros: frozenset[str]
    ) -> None:
        self.by_path: Mapping[str, Context] = {context.path: context for context in contexts}
        self.roots = tuple(context.path for context in self.by_path.values() if context.path == context.root)
        self.implicit = implicit
        self.node_namespace = node_namespace
        self.without_ros = without_ros
        """Roots of robots without any Ros*API, whose Isaac names count."""
        self._nearest = Nearest(self.by_path)
        self._with_nested = {each.root for each in self.by_path.values() if each.path != each.root}

    def has_nested(self, root: str) -> bool:
        """Return whether an outermost context has contexts below it."""
        return root in self._with_nested

    def nested(self, path: str) -> list[Context]:
        """Return the nested contexts at or above a prim, nearest first."""
        found = []
        context = self.nearest(path)
        while context is not None and context.path != context.root:
            found.append(context)
            context = self.nearest(parent_path(context.path))
        return found

    def nearest(self, path: str) -> Context | None:
        """Return the nearest context at or above a prim."""
        found = self._nearest(path)
        return self.by_path[found] if found else None

    def root_of(self, path: str) -> str:
        """Return the outermost context at or above a prim, "" where there is none."""
        found = self._nearest(path)
        return self.by_path[found].root if found else ""


def plan_contexts(records: StageRecords, options: PlanOptions, findings: DiagnosticCollector) -> Contexts:
    """Resolve all contexts.

    Raises:
        OptionError: `options.namespace` is no valid namespace.
    """
    node_namespace = _node_namespace(options.namespace)
    authored: Iterable[ContextRecord] = records.contexts
    implicit = not records.contexts and options.implicit_context
    if implicit:
        authored = _implicit_contexts(records, findings)
    resolved: dict[str, Context] = {}
    nearest = Nearest(resolved)
    source = "isaac:namespace" if implicit else "ros:context:namespace"
    for record in authored:
        if record.path in resolved:
            continue
        outer = resolved.get(nearest.above(record.path))
        resolved[record.path] = _resolve(record, outer, node_namespace, source, findings)
        nearest = nearest if outer else Nearest(resolved)
    _check_domain_count(resolved, findings)
    roots = [context.path for context in resolved.values() if context.path == context.root]
    _check_namespaces(resolved, roots, findings)
    has_ros = _has_ros_interfaces(records)
    return Contexts(
        resolved.values(),
        implicit=implicit,
        node_namespace=node_namespace,
        without_ros=frozenset(roots) if implicit and not has_ros else frozenset(),
    )


def _node_namespace(text: str) -> str:
    namespace = "/" + text.strip("/")
    fault = names.namespace_fault(namespace)
    if fault:
        raise OptionError(f"namespace {text!r} {fault}")
    return namespace


def _has_ros_interfaces(records: StageRecords) -> bool:
    return any((records.topics, records.services, records.actions, records.frames, records.controllers))


def _resolve(
    record: ContextRecord,
    outer: Context | None,
    node_namespace: str,
    source: str,
    findings: DiagnosticCollector,
) -> Context:
    segment = record.namespace or ""
    outer_namespace = outer.namespace if outer else node_namespace
    fault = names.namespace_fault(segment)
    if not fault and not outer:
        # The robot's frames go to topics in it, whatever its interfaces are called (REP 0158 section 2.1.1).
        fault = names.resolved_fault(names.join(names.join(outer_namespace, segment), "tf_static"), "topic")
    inherited_fault = outer.fault if outer else ""
    if fault:
        name = names.corrected_name(segment)
        corrected = f"write {name}: " if name else ""
        findings.error(
            "2.1.namespace",
            record.path,
            f"namespace {quoted(segment)} {fault}; it is left out",
            f"{corrected}use letters, digits and '_', joined by single slashes; until then interfaces below with "
            "relative names stay disabled",
            attribute=source,
        )
        fault = f"the namespace {quoted(segment)} of {record.path} {fault}"
        segment = ""
    elif "ros:context:namespace" in record.invalid:
        # Reading has reported it.
        fault = f"the namespace of {record.path} is of a type that cannot be used"
    namespace = names.join(outer_namespace, segment)
    absolute = segment.startswith("/")
    return Context(
        path=record.path,
        namespace=namespace,
        fault=fault or ("" if absolute else inherited_fault),
        domain_id=_domain(record, outer, findings),
        root=outer.root if outer else record.path,
        parent_frame=_parent_frame(record, outer, findings),
        base_transform=_base_transform(record, outer, findings),
        label=names.valid_name(segment.strip("/").replace("/", "_") or prim_name(record.path)),
    )


def _domain(record: ContextRecord, outer: Context | None, findings: DiagnosticCollector) -> int | None:
    inherited = outer.domain_id if outer else None
    domain = record.domain_id
    if domain is None:
        return inherited
    if not 0 <= domain <= MAX_DOMAIN:
        findings.error(
            "2.1.domain_id",
            record.path,
            f"domain id {quoted(domain)} is not in 0 to {MAX_DOMAIN}; it is ignored",
            f"use 0 to {MAX_DOMAIN}, better 0 to 101",
            attribute="ros:context:domain_id",
        )
        return inherited
    if outer and domain != inherited:
        findings.warning(
            "2.1.domain_id",
            record.path,
            f"domain id {quoted(domain)} differs from that of {outer.root}, where this robot's transforms go",
            "give a robot one domain",
            attribute="ros:context:domain_id",
        )
    return domain


def _parent_frame(record: ContextRecord, outer: Context | None, findings: DiagnosticCollector) -> str:
    authored = record.parent_frame
    if outer:
        if authored is not None:
            findings.warning(
                "2.1.parent_frame",
                record.path,
                f"parent_frame {quoted(authored)} of a nested context is ignored",
                f"author it on the outermost context {outer.root}",
                attribute="ros:context:parent_frame",
            )
        return outer.parent_frame
    if authored is None:
        return WORLD
    valid = names.valid_frame_id(authored) or WORLD
    if valid != authored:
        findings.error(
            "2.1.parent_frame",
            record.path,
            f"parent_frame {quoted(authored)} is no frame id; {quoted(valid)} is used",
            "use letters, digits and '_', no leading slash",
            attribute="ros:context:parent_frame",
        )
    elif remark := names.colon_remark([valid]):
        findings.warning(
            "2.1.parent_frame",
            record.path,
            remark,
            names.COLON_REMEDY,
            attribute="ros:context:parent_frame",
        )
    return valid


def _base_transform(
    record: ContextRecord, outer: Context | None, findings: DiagnosticCollector
) -> BaseTransform:
    authored, choices = record.base_transform, get_args(BaseTransform)
    if authored is None:
        return outer.base_transform if outer else "auto"
    if outer:
        findings.warning(
            "2.1.base_transform",
            record.path,
            f"base_transform {quoted(authored)} of a nested context is ignored",
            f"author it on the outermost context {outer.root}",
            attribute=BASE_TRANSFORM,
        )
        return outer.base_transform
    if authored not in choices:
        findings.error(
            "2.1.base_transform",
            record.path,
            f"base_transform {quoted(authored)} is unknown; auto is used",
            one_of(authored, choices),
            attribute=BASE_TRANSFORM,
        )
        return "auto"
    return cast(BaseTransform, authored)


def _check_namespaces(
    contexts: Mapping[str, Context], roots: list[str], findings: DiagnosticCollector
) -> None:
    first: dict[tuple[str, int | None], str] = {}
    for path in roots:
        context = contexts[path]
        other = first.setdefault((context.namespace, context.domain_id), path)
        if other != path:
            findings.error(
                "2.1.1",
                path,
                f"this robot has the namespace {quoted(context.namespace)} of {other} in the same domain",
                "give each robot a namespace of its own",
                attribute="ros:context:namespace",
            )


def _check_domain_count(contexts: dict[str, Context], findings: DiagnosticCollector) -> None:
    served: set[int | None] = {None}
    for path, context in contexts.items():
        if context.domain_id in served or len(served) < MAX_DOMAINS:
            served.add(context.domain_id)
            continue
        fault = f"domain {context.domain_id} is one more than the {MAX_DOMAINS} that a process serves"
        findings.error(
            "2.1.domain_id",
            path,
            fault,
            "run one bridge per group of robots",
            attribute="ros:context:domain_id",
        )
        contexts[path] = replace(context, unserved=fault)


# --- Stages without RosContextAPI ------------------------------------------------------------------------------


def _implicit_contexts(records: StageRecords, findings: DiagnosticCollector) -> list[ContextRecord]:
    """Return the contexts of a stage that has none: its Isaac robots, else its default prim."""
    isaac = {} if _has_ros_interfaces(records) else {record.path: record for record in records.isaac_robots}
    outermost = Nearest(isaac)
    contexts = [
        ContextRecord(path=path, namespace=record.namespace)
        for path, record in isaac.items()
        if not outermost.above(path)
    ]
    if not contexts:
        root = _default_root(records, findings)
        contexts = [ContextRecord(path=root)] if root and _has_content(records, root) else []
    for context in contexts:
        findings.info(
            "2.1.implicit",
            context.path,
            "the stage has no RosContextAPI; this prim acts as the context",
            "apply RosContextAPI and author ros:context:namespace",
        )
    return contexts


def _default_root(records: StageRecords, findings: DiagnosticCollector) -> str:
    if records.default_prim:
        return records.default_prim
    roots = [path for path in records.xforms if path.count("/") == 1]
    only = roots[0] if len(roots) == 1 else ""
    used = "its only root prim is used" if only else "none of its root prims is used"
    # Reading reports the missing metadata; this is the consequence.
    findings.warning(
        "1.2.5.default_prim",
        only,
        f"the stage has no default prim; {used}",
        "set defaultPrim on the root layer or apply RosContextAPI",
        attribute="defaultPrim",
    )
    return only


def _has_content(records: StageRecords, root: str) -> bool:
    """Return whether anything below `root` makes it a robot: a body, a joint, a frame or an interface."""
    groups: tuple[tuple[Record, ...], ...] = (
        records.bodies,
        records.joints,
        records.frames,
        records.topics,
        records.services,
        records.actions,
    )
    return any(is_below(record.path, root) for group in groups for record in group)
