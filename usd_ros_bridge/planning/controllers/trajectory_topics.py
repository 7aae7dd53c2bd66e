"""JointTrajectory subscriptions: which trajectory controller's command topic each one is.

joint_trajectory_controller of ros2_controllers has its action and its topic side by side, below its own name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.diagnostics import DiagnosticCollector
from usd_ros_bridge.model.message_types import FOLLOW_JOINT_TRAJECTORY, JOINT_TRAJECTORY
from usd_ros_bridge.model.records import JointTrajectoryRecord
from usd_ros_bridge.model.stage import StageRecords
from usd_ros_bridge.planning.contexts import Contexts
from usd_ros_bridge.planning.interfaces import InterfaceDraft


@dataclass(frozen=True, slots=True)
class _Owner:
    """A trajectory controller: one that is declared, or an action server that implies one.

    `context` is that of its action, which decides what its joints are called. `works` says whether its action does; one
    whose action does not has a topic only where no other is there.
    """

    path: str
    context: str
    root: str
    prefix: str
    works: bool


def is_trajectory_server(draft: InterfaceDraft) -> bool:
    """Return whether an interface is the action of a trajectory controller."""
    return (draft.kind, draft.type, draft.role) == ("action", FOLLOW_JOINT_TRAJECTORY, "server")


def is_trajectory_topic(draft: InterfaceDraft) -> bool:
    """Return whether an interface is the command topic of a trajectory controller."""
    return (draft.kind, draft.type, draft.role) == ("topic", JOINT_TRAJECTORY, "subscription")


def assign_trajectory_topics(
    records: StageRecords,
    interfaces: Sequence[InterfaceDraft],
    contexts: Contexts,
    findings: DiagnosticCollector,
) -> tuple[list[InterfaceDraft], dict[str, list[str]]]:
    """Find the controller of each JointTrajectory subscription: by name, else as the only one of its context.

    Args:
        records: The stage.
        interfaces: All interfaces.
        contexts: The contexts.
        findings: Takes what is wrong.

    Returns:
        The interfaces, those disabled that might be several controllers'; and prim paths of command topics by path of
        the controller (the declaring prim, else the action server's). A subscription without either stands alone.
    """
    topics = [draft for draft in interfaces if is_trajectory_topic(draft) and draft.is_switchable]
    if not topics:
        return list(interfaces), {}
    owners: dict[str, list[_Owner]] = {}
    for owner in _owners(records, interfaces, contexts):
        owners.setdefault(owner.root, []).append(owner)
    reasons: dict[str, str] = {}
    assigned: dict[str, list[str]] = {}
    for topic in topics:
        # In another context the same name may be another joint's.
        here = topic.context.path if topic.context else ""
        near = [each for each in owners.get(contexts.root_of(topic.path), ()) if each.context == here]
        candidates = _candidates(topic, near)
        if len(candidates) == 1:
            assigned.setdefault(candidates[0].path, []).append(topic.path)
        elif candidates:
            reasons[topic.path] = "it might belong to any of several trajectory controllers"
            findings.error(
                "4.2.3.trajectory_topic",
                topic.path,
                f"{quoted(_last(topic.name))} might belong to any of {len(candidates)} trajectory controllers; it is "
                "disabled",
                "name it as one of the action servers but for the last segment (controller/joint_trajectory beside "
                "controller/follow_joint_trajectory)",
                attribute="ros:topic:name",
            )
    settled = [
        replace(draft, reason=reasons[draft.path])
        if draft.path in reasons and is_trajectory_topic(draft)
        else draft
        for draft in interfaces
    ]
    return settled, assigned


def _owners(
    records: StageRecords, interfaces: Iterable[InterfaceDraft], contexts: Contexts
) -> Iterable[_Owner]:
    servers = {draft.path: draft for draft in interfaces if is_trajectory_server(draft)}
    named: set[str] = set()
    for record in records.controllers:
        if isinstance(record, JointTrajectoryRecord):
            server = servers.get(next(iter(record.server or ()), ""))
            named.update(record.server or ())
            yield _owner(record.path, server, contexts)
    for path, server in servers.items():
        if path not in named and server.is_switchable:
            yield _owner(path, server, contexts)


def _owner(path: str, server: InterfaceDraft | None, contexts: Contexts) -> _Owner:
    context = contexts.nearest(path if server is None else server.path)
    return _Owner(
        path=path,
        context=context.path if context else "",
        root=context.root if context else "",
        prefix=_prefix(server.name) if server is not None else "",
        works=server is not None and server.is_switchable,
    )


def _candidates(topic: InterfaceDraft, owners: Sequence[_Owner]) -> Sequence[_Owner]:
    """Return those of a context's owners that may be a topic's: one, several that are alike to it, or none."""
    working = [owner for owner in owners if owner.works] or owners
    prefix = _prefix(topic.name)
    return [owner for owner in working if owner.prefix == prefix] or working


def _prefix(name: str) -> str:
    return name.rpartition("/")[0] + "/"


def _last(name: str) -> str:
    return "/".join(name.split("/")[-2:]).lstrip("/")
