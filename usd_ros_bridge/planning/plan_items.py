"""One plan as items that can be compared with another plan's: robots, interfaces, controllers, joints, frames."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

from usd_ros_bridge.model.difference import ItemKind, Value
from usd_ros_bridge.model.plan import (
    BridgePlan,
    ControllerPlan,
    DofPlan,
    FramePlan,
    InterfacePlan,
    JointPlan,
    Pose,
    RobotPlan,
    TopicPlan,
)
from usd_ros_bridge.planning.interfaces import JOINT_STATE
from usd_ros_bridge.planning.topics import OF_JOINTS

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
        name: As people know it.
        path: Prim path.
        robot: Index of its robot in its plan, -1 for none.
        detail: What tells most about it.
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
        """Stores the plan. `numbers` must know each robot's counterpart before anything but robots is asked for."""
        self.plan = plan
        self.numbers: dict[int, int] = {-1: -1}
        """By index in the plan: what both plans call a robot."""
        self._names: dict[str, list[str]] = defaultdict(list)
        for interface in self._all_interfaces():
            self._names[interface.path].append(interface.name)

    def _all_interfaces(self) -> Iterable[InterfacePlan]:
        return (*self.plan.topics, *self.plan.services, *self.plan.actions)

    def relative_path(self, item: Item) -> str:
        """Returns the item's prim path as seen from its robot; a robot's own as it is."""
        return item.path if item.kind == "robot" else self._path(item.path, item.robot)

    def _path(self, path: str, robot: int) -> str:
        top = self.plan.robots[robot].path if robot >= 0 else ""
        return path[len(top) :] if top and (path + "/").startswith(top + "/") else path

    def _name(self, name: str, robot: int) -> str:
        """Returns a resolved name as seen from the robot's namespace, which it starts with where it is relative."""
        if robot < 0:
            return name
        namespace = self.plan.robots[robot].namespace.rstrip("/") + "/"
        return name[len(namespace) :] if name.startswith(namespace) else name

    def robots(self) -> list[Item]:
        """Returns the robots in the order of the plan."""
        return [
            Item(
                kind="robot", label="robot", name=robot.namespace, path=robot.path, robot=index, detail=robot.path,
                keys=(
                    (robot.namespace, robot.path),
                    robot.namespace if robot.namespace != "/" else None,
                    robot.path,
                    "the only one" if len(self.plan.robots) == 1 else None,
                ),
                facts=_bound(_robot_facts, robot),
            )
            for index, robot in enumerate(self.plan.robots)
        ]  # fmt: skip

    def interfaces(self) -> list[Item]:
        """Returns the interfaces in the order of the plan."""
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
            kind=kind, label=_LABELS.get((kind, item.role), item.role), name=item.name, path=item.path,
            robot=item.robot, detail=item.type,
            keys=(
                (robot, kind, item.role, name, path),
                (robot, kind, item.role, name),
                (kind, item.role, item.name),
                (robot, kind, item.role, path),
                (robot, kind, path),
            ),
            facts=_bound(self._interface_facts, item),
        )  # fmt: skip

    def controllers(self) -> list[Item]:
        """Returns the controllers in the order of the plan."""
        items = []
        for plan in self.plan.controllers:
            robot, path = self.numbers[plan.robot], self._path(plan.path, plan.robot)
            served = self._served(plan)
            items.append(
                Item(
                    kind="controller", label="controller", name=plan.path, path=plan.path, robot=plan.robot,
                    detail=plan.schema,
                    keys=(
                        (robot, plan.schema, path),
                        (robot, plan.schema, served) if served else None,
                        (robot, path),
                    ),
                    facts=_bound(self._controller_facts, plan),
                )
            )  # fmt: skip
        return items

    def joints(self, *, but: Container[int] = ()) -> list[Item]:
        """Returns the joints in the order of the plan, without those of the robots `but`."""
        return [
            Item(
                kind="joint", label="joint", name=joint.name, path=joint.path, robot=index, detail=joint.type,
                keys=self._keys(index, joint.name, joint.path), facts=_bound(self._joint_facts, joint),
            )
            for index, robot in enumerate(self.plan.robots)
            if index not in but
            for joint in robot.joints
        ]  # fmt: skip

    def frames(self, *, but: Container[int] = ()) -> list[Item]:
        """Returns the frames in the order of the plan, without those of the robots `but`."""
        return [
            Item(
                kind="frame", label="frame", name=frame.id, path=frame.path, robot=index, detail=f"in {frame.parent}",
                keys=self._keys(index, frame.id, frame.path), facts=_bound(_frame_facts, frame),
            )
            for index, robot in enumerate(self.plan.robots)
            if index not in but
            for frame in robot.frames
        ]  # fmt: skip

    def bare_frames(self, robot: int) -> list[Any]:
        """Returns what is compared of a robot's frames, quickly: two such lists that are equal differ in nothing."""
        return list(map(_FRAME, self.plan.robots[robot].frames))

    def bare_joints(self, robot: int) -> list[Any]:
        """Returns what is compared of a robot's joints, likewise."""
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
            "name": item.name, "role": item.role, "type": item.type, "domain_id": item.domain_id,
            "enabled": item.enabled, "reason": item.reason,
        }  # fmt: skip
        if isinstance(item, TopicPlan):
            facts |= {
                "publish_rate": _value(item.publish_rate),
                "frame_id": item.frame_id,
                "child_frame_id": item.child_frame_id,
            }
            facts |= {f"qos.{name}": value for name, value in _parts(item.qos).items()}
            if item.type in OF_JOINTS:
                facts["joints"] = self._dof_names(item)
            if item.camera >= 0:
                camera = _parts(self.plan.scene.cameras[item.camera])
                facts |= {f"camera.{name}": value for name, value in camera.items() if name != "path"}
        return facts

    def _controller_facts(self, plan: ControllerPlan) -> dict[str, Value]:
        facts: dict[str, Value] = {
            "schema": plan.schema, "interfaces": self._served(plan), "joints": plan.joints, "enabled": plan.enabled,
            "reason": plan.reason, "implied": plan.implied,
        }  # fmt: skip
        for name, value in plan.parameters.items():
            facts[f"parameters.{name}"] = _value(self._path(value, plan.robot) if name == "body" else value)
        return facts

    def _joint_facts(self, joint: JointPlan) -> dict[str, Value]:
        facts: dict[str, Value] = {
            "name": joint.name, "type": joint.type, "parent": joint.parent, "child": joint.child, "axis": joint.axis,
            "inverted": joint.inverted,
        }  # fmt: skip
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
        """Returns the names of a controller's interfaces in its robot, sorted: prims that move change no controller."""
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
    """Returns a value of a plan as JSON says it: numbers that are not finite are None."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (tuple, list)):
        return tuple(_value(each) for each in value)
    return str(value)


def _bound(call: Callable[[Any], dict[str, Value]], argument: Any) -> Callable[[], Mapping[str, Value]]:
    return lambda: call(argument)
