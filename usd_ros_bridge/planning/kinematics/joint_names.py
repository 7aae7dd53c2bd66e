"""Joint names (REP 0158 section 2.10), and the order of joints in JointState."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.diagnostics import DiagnosticCollector
from usd_ros_bridge.model.records import DofAxis, IsaacJointRecord, IsaacRobotRecord, JointRecord
from usd_ros_bridge.planning import names
from usd_ros_bridge.planning.contexts import Context
from usd_ros_bridge.planning.kinematics.joint_graph import TreeJoint
from usd_ros_bridge.planning.names import prim_name

_SUFFIX = {"transX": "tx", "transY": "ty", "transZ": "tz", "rotX": "rx", "rotY": "ry", "rotZ": "rz"}
_OFFSETS: dict[DofAxis, str] = {
    "transX": "trans_x_offset",
    "transY": "trans_y_offset",
    "transZ": "trans_z_offset",
    "rotX": "rot_x_offset",
    "rotY": "rot_y_offset",
    "rotZ": "rot_z_offset",
}
_LAST = 1 << 30


def authored_names(joints: Iterable[TreeJoint], findings: DiagnosticCollector) -> dict[str, str]:
    """Return the valid authored names by joint path."""
    result = {}
    for joint in joints:
        name = joint.record.ros_name
        if name is None:
            continue
        if not _is_name(name):
            findings.error(
                "2.10.name",
                joint.path,
                f"{quoted(name)} is no joint name; the prim name is used",
                f"use printable characters, at most {names.MAX_NAME}",
                attribute="ros:joint:name",
            )
            continue
        result[joint.path] = name
    return result


def _is_name(text: str) -> bool:
    return bool(text.strip()) and len(text) <= names.MAX_NAME and text.isprintable()


def name_joints(
    joints: Sequence[TreeJoint],
    authored: Mapping[str, str],
    isaac: Mapping[str, str],
    contexts: Mapping[str, Sequence[Context]],
    findings: DiagnosticCollector,
) -> dict[str, str]:
    """Return the name of each joint by path, unique in messages about all of `joints`.

    Of joints with one name, the first keeps it; authored names come before others, and joints that move before
    fixed ones. A later one gets the label of its nearest distinguishing context in front, else the name of its nearest
    distinguishing ancestor. Nothing refers to fixed joints by name: theirs change without a warning.

    Args:
        joints: Those of one robot, or of one nested context, in traversal order.
        authored: Authored names by path.
        isaac: Names between the authored ones and the prim names, by path.
        contexts: Nested contexts of each joint that distinguish it from others of `joints`, by path, nearest first.
        findings: Takes the names that had to change.
    """
    unique = names.UniqueNames()
    result = {}
    for joint in joints:
        name = authored.get(joint.path)
        if name is not None and unique.claim(name, joint.path):
            result[joint.path] = name
    for joint in sorted(joints, key=lambda joint: joint.kind == "fixed"):
        path = joint.path
        if path in result:
            continue
        name = authored.get(path) or _given_name(joint, isaac.get(path, ""), unique, findings)
        owner = unique.owner(name)
        free = path in authored or name == joint.record.kept_name
        result[path] = _claim(unique, name, path, contexts, is_free=free)
        if owner is not None and path in authored:
            _report_equal(joint, name, owner, result[path], contexts, findings)
        elif owner is not None and joint.kind != "fixed":
            findings.warning(
                "2.10.name",
                path,
                f"the name {quoted(name)} is that of {owner}; {quoted(result[path])} is used",
                "author ros:joint:name",
            )
    return result


def _given_name(
    joint: TreeJoint, isaac: str, unique: names.UniqueNames, findings: DiagnosticCollector
) -> str:
    """Return the preferred name of a joint without an authored one."""
    path, kept = joint.path, joint.record.kept_name
    if isaac and not _is_name(isaac):
        findings.warning(
            "2.10.name",
            path,
            f"{quoted(isaac)} is no joint name; the prim name is used",
            f"use printable characters, at most {names.MAX_NAME}",
            attribute="isaac:nameOverride",
        )
        isaac = ""
    if kept and names.is_numbered(prim_name(path), kept) and unique.owner(kept) is not None:
        kept = ""
    return isaac or kept or prim_name(path)[: names.MAX_NAME]


def _claim(
    unique: names.UniqueNames,
    name: str,
    path: str,
    contexts: Mapping[str, Sequence[Context]],
    *,
    is_free: bool,
) -> str:
    """Return `name`, else one that a context or an ancestor makes unique: any text where the name `is_free`."""
    owner = unique.owner(name)
    theirs = [context.label for context in contexts.get(owner or "", ())]
    for height, context in enumerate(contexts.get(path, ()) if owner is not None else ()):
        if height < len(theirs) and theirs[height] == context.label:
            continue
        candidate = _bounded(f"{context.label}_{name}")
        if unique.claim(candidate, path):
            return candidate
    return unique.claim_near(name, path, _bounded if is_free else names.valid_name)


def _bounded(name: str) -> str:
    return name[: names.MAX_NAME]


def _report_equal(
    joint: TreeJoint,
    name: str,
    owner: str,
    used: str,
    contexts: Mapping[str, Sequence[Context]],
    findings: DiagnosticCollector,
) -> None:
    """Report a joint that cannot have its authored name in messages of the whole robot."""
    own, theirs = contexts.get(joint.path, ()), contexts.get(owner, ())
    if own[:1] != theirs[:1]:
        place = f"; in messages of {own[0].path} it stays {quoted(name)}" if own else ""
        findings.warning(
            "2.10.name",
            joint.path,
            f"the name {quoted(name)} is that of {owner}, too; in messages of the whole robot this joint is "
            f"{quoted(used)}{place}",
            "if the two need different names, author ros:joint:name on one of them",
            attribute="ros:joint:name",
        )
        return
    findings.error(
        "2.10.name",
        joint.path,
        f"the name {quoted(name)} is that of {owner}; {quoted(used)} is used",
        "give each joint of a context a name of its own",
        attribute="ros:joint:name",
    )


def dof_names(joint_name: str, axes: Sequence[DofAxis], taken: Collection[str]) -> list[str]:
    """Return JointState names of a joint's degrees of freedom, other than those `taken`."""
    if len(axes) == 1:
        return [joint_name]
    result = []
    for axis in axes:
        name = f"{joint_name}_{_SUFFIX[axis]}"
        while name in taken:
            name += "_"
        result.append(name)
    return result


# --- Isaac's robot schema ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IsaacOrder:
    """Order of JointState by Isaac's robot schema.

    Attributes:
        joints: Position of each joint in the robots' joint lists, by path.
        records: IsaacJointAPI by joint path.
    """

    joints: Mapping[str, int]
    records: Mapping[str, IsaacJointRecord]

    def sort_key(
        self, record: JointRecord, axis: DofAxis, joint_position: int, dof_position: int
    ) -> tuple[int, int, int, int]:
        """Return the sort key of a degree of freedom.

        Args:
            record: The joint.
            axis: Which degree of freedom of it.
            joint_position: The joint's place in traversal order.
            dof_position: The degree of freedom's place in the joint.
        """
        isaac = self.records.get(record.path)
        offset = None
        if isaac is not None:
            offset = getattr(isaac, _OFFSETS[axis])
            order = [token.lower() for token in isaac.dof_offset_order or ()]
            if axis.lower() in order:
                dof_position = order.index(axis.lower())
        listed = self.joints.get(record.path, _LAST)
        return listed, _LAST if offset is None else offset, joint_position, dof_position


def isaac_order(
    root: str, robots: Iterable[IsaacRobotRecord], joints: Iterable[IsaacJointRecord]
) -> IsaacOrder | None:
    """Return the order that Isaac's schema gives the robot at `root`, None where it gives none."""
    listed: dict[str, int] = {}
    for robot in robots:
        if robot.joints and (robot.path == root or robot.path.startswith(root + "/")):
            for path in robot.joints:
                listed.setdefault(path, len(listed))
    ordering = {
        record.path: record
        for record in joints
        if any(
            getattr(record, field.name) is not None
            for field in fields(record)
            if field.name.endswith("_offset") or field.name == "dof_offset_order"
        )
    }
    return IsaacOrder(listed, ordering) if listed or ordering else None
