"""Diff of two plans: the changes of the ROS interface, for reviewers, logs and CI."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.change import (
    ITEM_KINDS,
    ChangeKind,
    FieldChange,
    ItemDifference,
    ItemKind,
    PlanDifference,
    Value,
)
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.message_types import JOINT_STATE, message_type
from usd_ros_bridge.model.plan import (
    BridgePlan,
    ControllerPlan,
    DofPlan,
    FramePlan,
    InterfacePlan,
    JointPlan,
    RobotPlan,
    TopicPlan,
)
from usd_ros_bridge.spatial.pose import Pose

TOLERANCE = 1e-9
"""Up to where numbers are the same, absolute and relative: rounding of transforms that are composed again."""


def difference(old: BridgePlan, new: BridgePlan) -> PlanDifference:
    """Compare the ROS interfaces of two plans.

    What has the same name in the same robot is the same, wherever its prim is; what has another name is the same where
    its prim is. Robots are the same by namespace, then by prim path, and where each plan has just one. Prim paths
    are compared as seen from the robot's own: a robot that moved as a whole changed one path.

    Args:
        old: The plan before.
        new: The plan after.

    Returns:
        What was added, removed and changed, and where both plans have physics, what is not simulated. Neither the
        asset's name, other diagnostics nor what engines simulate is compared.
    """
    before, after = PlanItems(old), PlanItems(new)
    robots = list(_paired(before.robots(), after.robots()))
    for number, (one, other) in enumerate(robots):
        for side, item in ((before, one), (after, other)):
            if item is not None:
                side.numbers[item.robot] = number
    joints = _alike(robots, before.bare_joints, after.bare_joints)
    frames = _alike(robots, before.bare_frames, after.bare_frames)
    pairs = [
        *robots,
        *_paired(before.interfaces(), after.interfaces()),
        *_paired(before.controllers(), after.controllers()),
        *_paired(before.joints(but=joints.keys()), after.joints(but=set(joints.values()))),
        *_paired(before.frames(but=frames.keys()), after.frames(but=set(frames.values()))),
    ]
    compared = (_compare(before, one, after, other) for one, other in pairs)
    both = old.physics is not None and new.physics is not None
    lost, found = (_degraded(plan) if both else {} for plan in (old, new))
    return PlanDifference(
        items=tuple(sorted((item for item in compared if item is not None), key=_order)),
        degraded_added=tuple(each for each in found if each not in lost),
        degraded_removed=tuple(each for each in lost if each not in found),
    )


def _degraded(plan: BridgePlan) -> dict[Diagnostic, None]:
    """Return what is not simulated as authored, in order."""
    return dict.fromkeys(each for each in plan.diagnostics if each.reason)


def _alike(
    robots: Iterable[tuple[Item | None, Item | None]],
    of_old: Callable[[int], list[Any]],
    of_new: Callable[[int], list[Any]],
) -> dict[int, int]:
    """Return robots of the new plan by those of the old one that need no closer look: most, as a rule."""
    return {
        old.robot: new.robot
        for old, new in robots
        if old is not None and new is not None and of_old(old.robot) == of_new(new.robot)
    }


def _order(item: ItemDifference) -> tuple[int, str, str, str]:
    return ITEM_KINDS.index(item.kind), item.name, item.label, item.path


# --- Pairs --------------------------------------------------------------------------------------------------------


def _paired(old: Sequence[Item], new: Sequence[Item]) -> Iterator[tuple[Item | None, Item | None]]:
    """Yield counterparts, then what has none: key after key, each among what those before have left."""
    left, right = list(old), list(new)
    for level in range(max((len(item.keys) for item in (*old, *new)), default=0)):
        waiting: dict[Hashable, deque[Item]] = defaultdict(deque)
        for item in left:
            if item.keys[level] is not None:
                waiting[item.keys[level]].append(item)
        taken: set[Item] = set()
        rest = []
        for item in right:
            candidates = waiting.get(item.keys[level])
            if candidates:
                taken.add(candidates[0])
                yield candidates.popleft(), item
            else:
                rest.append(item)
        left, right = [item for item in left if item not in taken], rest
    yield from ((item, None) for item in left)
    yield from ((None, item) for item in right)


def _compare(
    before: PlanItems, old: Item | None, after: PlanItems, new: Item | None
) -> ItemDifference | None:
    if old is None or new is None:
        if old is not None:
            return _difference(old, before, "removed")
        return None if new is None else _difference(new, after, "added")
    changes = []
    if before.relative_path(old) != after.relative_path(new):
        changes.append(FieldChange(field="path", old=old.path, new=new.path))
    was, now = old.facts(), new.facts()
    changes += [
        FieldChange(field=field, old=was.get(field), new=now.get(field))
        for field in dict.fromkeys((*was, *now))
        if not _same(field, was.get(field), now.get(field))
    ]
    return _difference(new, after, "changed", tuple(changes)) if changes else None


def _difference(
    item: Item, side: PlanItems, change: ChangeKind, changes: tuple[FieldChange, ...] = ()
) -> ItemDifference:
    return ItemDifference(
        kind=item.kind,
        change=change,
        label=item.label,
        name=item.name,
        path=item.path,
        robot=side.plan.robots[item.robot].namespace if item.robot >= 0 else "",
        detail=item.detail,
        fields=changes,
    )


def _same(field: str, old: Value, new: Value) -> bool:
    if isinstance(old, tuple) and isinstance(new, tuple):
        if len(old) != len(new):
            return False
        if all(_same("", a, b) for a, b in zip(old, new, strict=True)):
            return True
        # A quaternion and its negative are one rotation.
        return field.endswith("rotation") and all(
            _same("", a, _negative(b)) for a, b in zip(old, new, strict=True)
        )
    if isinstance(old, float) and isinstance(new, float):
        return math.isclose(old, new, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return old == new


def _negative(value: Value) -> Value:
    return -value if isinstance(value, float) else value


_LABELS = {
    ("service", "server"): "service server",
    ("service", "client"): "service client",
    ("action", "server"): "action server",
    ("action", "client"): "action client",
}
# What is compared, rows of the layout aside: those of a robot move with every robot before it.
_FRAME = attrgetter("id", "parent", "path", "static", "parent_from_frame")
_JOINT = attrgetter(
    "name", "path", "type", "parent", "child", "axis", "inverted", "body0_from_joint", "body1_from_joint"
)
_DOF = attrgetter("axis", "position", "lower", "upper", "max_velocity", "max_effort")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Item:
    """Something that may have a counterpart in the other plan.

    Attributes:
        kind: What it is.
        label: What it is, closer.
        name: Name for people.
        path: Prim path.
        robot: Index of its robot in its plan, -1 for none.
        detail: Its most important property.
        keys: What a counterpart has in common with it, the best first; as many as others of the kind have. None fits
            nothing.
        facts: Everything that is compared.
    """

    kind: ItemKind
    label: str
    name: str
    path: str
    robot: int
    detail: str
    keys: tuple[Hashable | None, ...]
    facts: Callable[[], Mapping[str, Value]]


class PlanItems:
    """A plan as items."""

    def __init__(self, plan: BridgePlan) -> None:
        """Store the plan. `numbers` must know each robot's counterpart before anything but robots is asked for."""
        self.plan = plan
        self.numbers: dict[int, int] = {-1: -1}
        """By index in the plan: what both plans call a robot."""
        self._sensors = {sensor.path: sensor for sensor in plan.sensors}
        self._names: dict[str, list[str]] = defaultdict(list)
        for interface in self._all_interfaces():
            self._names[interface.path].append(interface.name)

    def _all_interfaces(self) -> Iterable[InterfacePlan]:
        return (*self.plan.topics, *self.plan.services, *self.plan.actions)

    def relative_path(self, item: Item) -> str:
        """Return the item's prim path relative to its robot; a robot's own as it is."""
        return item.path if item.kind == "robot" else self._path(item.path, item.robot)

    def _path(self, path: str, robot: int) -> str:
        top = self.plan.robots[robot].path if robot >= 0 else ""
        return path[len(top) :] if top and (path + "/").startswith(top + "/") else path

    def _name(self, name: str, robot: int) -> str:
        """Return a resolved name relative to the robot's namespace, which it starts with where it is relative."""
        if robot < 0:
            return name
        namespace = self.plan.robots[robot].namespace.rstrip("/") + "/"
        return name[len(namespace) :] if name.startswith(namespace) else name

    def robots(self) -> list[Item]:
        """Return the robots in the order of the plan."""
        return [
            Item(
                kind="robot",
                label="robot",
                name=robot.namespace,
                path=robot.path,
                robot=index,
                detail=robot.path,
                keys=(
                    (robot.namespace, robot.path),
                    robot.namespace if robot.namespace != "/" else None,
                    robot.path,
                    "the only one" if len(self.plan.robots) == 1 else None,
                ),
                facts=_bound(_robot_facts, robot),
            )
            for index, robot in enumerate(self.plan.robots)
        ]

    def interfaces(self) -> list[Item]:
        """Return the interfaces in the order of the plan."""
        kinds: tuple[tuple[ItemKind, Sequence[InterfacePlan]], ...] = (
            ("topic", self.plan.topics),
            ("service", self.plan.services),
            ("action", self.plan.actions),
        )
        return [self._interface(kind, item) for kind, items in kinds for item in items]

    def _interface(self, kind: ItemKind, item: InterfacePlan) -> Item:
        robot = self.numbers[item.robot]
        name, path = self._name(item.name, item.robot), self._path(item.path, item.robot)
        return Item(
            kind=kind,
            label=_LABELS.get((kind, item.role), item.role),
            name=item.name,
            path=item.path,
            robot=item.robot,
            detail=item.type,
            keys=(
                (robot, kind, item.role, name, path),
                (robot, kind, item.role, name),
                (kind, item.role, item.name),
                (robot, kind, item.role, path),
                (robot, kind, path),
            ),
            facts=_bound(self._interface_facts, item),
        )

    def controllers(self) -> list[Item]:
        """Return the controllers in the order of the plan."""
        items = []
        for plan in self.plan.controllers:
            robot, path = self.numbers[plan.robot], self._path(plan.path, plan.robot)
            served = self._served(plan)
            items.append(
                Item(
                    kind="controller",
                    label="controller",
                    name=plan.path,
                    path=plan.path,
                    robot=plan.robot,
                    detail=plan.schema,
                    keys=(
                        (robot, plan.schema, path),
                        (robot, plan.schema, served) if served else None,
                        (robot, path),
                    ),
                    facts=_bound(self._controller_facts, plan),
                )
            )
        return items

    def joints(self, *, but: Container[int] = ()) -> list[Item]:
        """Return the joints in the order of the plan, without those of the robots `but`."""
        return [
            Item(
                kind="joint",
                label="joint",
                name=joint.name,
                path=joint.path,
                robot=index,
                detail=joint.type,
                keys=self._keys(index, joint.name, joint.path),
                facts=_bound(self._joint_facts, joint),
            )
            for index, robot in enumerate(self.plan.robots)
            if index not in but
            for joint in robot.joints
        ]

    def frames(self, *, but: Container[int] = ()) -> list[Item]:
        """Return the frames in the order of the plan, without those of the robots `but`."""
        return [
            Item(
                kind="frame",
                label="frame",
                name=frame.id,
                path=frame.path,
                robot=index,
                detail=f"in {frame.parent}",
                keys=self._keys(index, frame.id, frame.path),
                facts=_bound(_frame_facts, frame),
            )
            for index, robot in enumerate(self.plan.robots)
            if index not in but
            for frame in robot.frames
        ]

    def bare_frames(self, robot: int) -> list[Any]:
        """Return what is compared of a robot's frames, quickly: two such lists that are equal differ in nothing."""
        return list(map(_FRAME, self.plan.robots[robot].frames))

    def bare_joints(self, robot: int) -> list[Any]:
        """Return what is compared of a robot's joints, likewise."""
        return [(_JOINT(j), [self._bare_dof(dof) for dof in j.dofs]) for j in self.plan.robots[robot].joints]

    def _bare_dof(self, dof: DofPlan) -> Any:
        mimic = dof.mimic
        if mimic is None:
            return _DOF(dof)
        return _DOF(dof), self.plan.layout.dofs[mimic.leader], mimic.multiplier, mimic.offset

    def _keys(self, robot: int, name: str, path: str) -> tuple[Hashable, ...]:
        number, path = self.numbers[robot], self._path(path, robot)
        return (number, name, path), (number, name), (number, None, path)

    # --- Facts ----------------------------------------------------------------------------------------------------

    def _interface_facts(self, item: InterfacePlan) -> dict[str, Value]:
        facts: dict[str, Value] = {
            "name": item.name,
            "role": item.role,
            "type": item.type,
            "domain_id": item.domain_id,
            "enabled": item.enabled,
            "reason": item.reason,
        }
        if isinstance(item, TopicPlan):
            facts |= {
                "publish_rate": _value(item.publish_rate),
                "frame_id": item.frame_id,
                "child_frame_id": item.child_frame_id,
            }
            facts |= {f"qos.{name}": value for name, value in _parts(item.qos).items()}
            if message_type(item.type).of_joints:
                facts["joints"] = self._dof_names(item)
            if message_type(item.type).commands == "joint_array" and item.role == "subscription":
                facts["command_interface"] = item.command_interface
            if item.camera >= 0:
                camera = _parts(self.plan.scene.cameras[item.camera])
                facts |= {f"camera.{name}": value for name, value in camera.items() if name != "path"}
            if (sensor := self._sensors.get(item.path)) is not None:
                facts["sensor"] = sensor.schema
                facts |= {f"sensor.{name}": _value(value) for name, value in sensor.values.items()}
        return facts

    def _controller_facts(self, plan: ControllerPlan) -> dict[str, Value]:
        facts: dict[str, Value] = {
            "schema": plan.schema,
            "interfaces": self._served(plan),
            "joints": plan.joints,
            "enabled": plan.enabled,
            "reason": plan.reason,
            "implied": plan.implied,
        }
        if plan.chained:
            facts["chained"] = plan.chained
        for name, value in plan.parameters.items():
            facts[f"parameters.{name}"] = _value(self._path(value, plan.robot) if name == "body" else value)
        return facts

    def _joint_facts(self, joint: JointPlan) -> dict[str, Value]:
        facts: dict[str, Value] = {
            "name": joint.name,
            "type": joint.type,
            "parent": joint.parent,
            "child": joint.child,
            "axis": joint.axis,
            "inverted": joint.inverted,
        }
        facts |= _pose("body0_from_joint", joint.body0_from_joint)
        facts |= _pose("body1_from_joint", joint.body1_from_joint)
        for dof in joint.dofs:
            start = "" if len(joint.dofs) == 1 else f"{dof.axis}."
            facts |= {f"{start}{name}": value for name, value in self._dof_facts(dof).items()}
        return facts

    def _dof_facts(self, dof: DofPlan) -> dict[str, Value]:
        facts: dict[str, Value] = {
            name: _value(getattr(dof, name))
            for name in ("position", "lower", "upper", "max_velocity", "max_effort")
        }
        if dof.mimic is not None:
            leader = self.plan.layout.dofs[dof.mimic.leader]
            facts |= {
                "mimic.leader": leader,
                "mimic.multiplier": dof.mimic.multiplier,
                "mimic.offset": dof.mimic.offset,
            }
        return facts

    def _served(self, plan: ControllerPlan) -> tuple[str, ...]:
        """Return the names of a controller's interfaces in its robot, sorted: prims that move change no controller."""
        names = (name for path in plan.interfaces for name in self._names.get(path, (path,)))
        return tuple(sorted(self._name(name, plan.robot) for name in names))

    def _dof_names(self, item: TopicPlan) -> tuple[str, ...]:
        names = self.plan.joint_names(item)
        # Commands name their joints, in any order.
        by_name = item.type == JOINT_STATE and item.role == "subscription"
        return tuple(sorted(names)) if by_name else names


def _robot_facts(robot: RobotPlan) -> dict[str, Value]:
    outputs = robot.tf_outputs
    facts: dict[str, Value] = {
        "namespace": robot.namespace,
        "domain_id": robot.domain_id,
        "parent_frame": robot.parent_frame,
        "implicit": robot.implicit,
        "tf": tuple(output.tf for output in outputs),
        "tf_static": tuple(output.tf_static for output in outputs),
        "frame_prefix": tuple(output.prefix for output in outputs),
        "base_frame": robot.frames[robot.base].id if robot.base >= 0 else None,
        "odom_frame": robot.odom_frame if robot.base >= 0 else None,
        "base_transform": robot.base_transform if robot.base >= 0 else None,
    }
    return facts


def _frame_facts(frame: FramePlan) -> dict[str, Value]:
    facts: dict[str, Value] = {"id": frame.id, "parent": frame.parent, "static": frame.static}
    facts |= _pose("", frame.parent_from_frame)
    return facts


def _pose(name: str, pose: Pose) -> dict[str, Value]:
    start = f"{name}." if name else ""
    return {f"{start}translation": _value(pose.translation), f"{start}rotation": _value(pose.rotation)}


def _parts(record: Any) -> dict[str, Value]:
    return {field.name: _value(getattr(record, field.name)) for field in fields(record)}


def _value(value: Any) -> Value:
    """Return a value of a plan as JSON says it: numbers that are not finite are None."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (tuple, list)):
        return tuple(_value(each) for each in value)
    return str(value)


def _bound(call: Callable[[Any], dict[str, Value]], argument: Any) -> Callable[[], Mapping[str, Value]]:
    return lambda: call(argument)


def why_refused(old: BridgePlan, new: BridgePlan) -> str:
    """Return why a bridge that runs one plan does not go on with another, "" where it does.

    An asset that is being edited is often broken for a moment. A fault costs one interface, as it does at the start;
    but if the default prim is gone, or all contexts, no robot is left, and the running plan stays.

    Args:
        old: What runs.
        new: What the stage has become.
    """
    if old.default_prim and not new.default_prim:
        return f"the stage has no default prim any more (it was {quoted(old.default_prim)})"
    declared = [robot.path for robot in old.robots if not robot.implicit]
    if declared and all(robot.implicit for robot in new.robots):
        there = ", ".join(quoted(path) for path in declared[:3])
        return f"no RosContextAPI is left of {there}"
    if old.robots and not new.robots:
        return "no robot is left"
    return ""
