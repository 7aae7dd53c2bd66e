"""Which topics of a bag are whose: the names that the bridge gives them, other names on request, or the only one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from usd_ros_bridge.backends.bag.bag_frames import tf_candidates
from usd_ros_bridge.backends.bag.bag_source import BagSource
from usd_ros_bridge.errors import BackendError, alternatives, quoted
from usd_ros_bridge.model.message_types import JOINT_STATE, TF_MESSAGE
from usd_ros_bridge.model.plan import BridgePlan, RobotPlan
from usd_ros_bridge.reporting import Report

JOINT_STATES: Final = "joint_states"
_SHOWN: Final = 5
"""Names in a message."""


class BagTopics:
    """Topics of a bag by robot.

    Attributes:
        joint_rows: For each topic of joint states in use, the robots that it is of, with layout rows by joint name.
        tf: Topics of transforms in use.
    """

    def __init__(self, plan: BridgePlan, source: BagSource, remap: Mapping[str, str], report: Report) -> None:
        """Match topics.

        Args:
            plan: The plan.
            source: The bag.
            remap: Other names of the bag's topics, by name in the bag.
            report: Reports other names that no robot has.

        Raises:
            BackendError: A topic of `remap` is not in the bag.
        """
        self._plan = plan
        self._source = source
        for name in remap:
            if name not in source.topics:
                raise BackendError(
                    f"option remap of backend playback: bag {source.name} has no topic {quoted(name)}; "
                    f"{alternatives(name, source.topics)}"
                )
        self._names = {name: name for name in source.topics if name not in remap}
        self._names.update({played: name for name, played in remap.items()})
        self.joint_rows: dict[str, list[tuple[RobotPlan, Mapping[str, int]]]] = {}
        movable = [
            (index, robot)
            for index, robot in enumerate(plan.robots)
            if any(joint.dofs for joint in robot.joints)
        ]
        for index, robot in movable:
            self._add_joint_topics(index, robot, alone=len(movable) == 1)
        outputs = [output for robot in plan.robots for output in tf_candidates(plan, robot)]
        names = {self.recorded(name) for output in outputs for name in (output.tf, output.tf_static)}
        self.tf = {name for name in names if name and source.topics[name] == TF_MESSAGE}
        for name in sorted(remap.keys() - self.joint_rows.keys() - self.tf):
            known = {each for index, robot in movable for each in self._own_topics(index, robot)}
            known |= {each for output in outputs for each in (output.tf, output.tf_static)}
            report(
                f"playback.bag_topics:{name}",
                f"option remap: no robot has the topic {quoted(remap[name])}, {quoted(name)} is not played; "
                f"{alternatives(remap[name], known)}",
            )

    def recorded(self, topic: str) -> str | None:
        """Return the name in the bag of a topic of the bridge, None if it is not there."""
        return self._names.get(topic)

    def joint_topic(self, robot: RobotPlan) -> str:
        """Return the name that a robot's joint states have by default."""
        return f"{robot.namespace.rstrip('/')}/{JOINT_STATES}"

    def remedy(self) -> str:
        """Return which topics the bag has, and how to play them under other names."""
        found = [*self._source.topics_of(JOINT_STATE), *self._source.topics_of(TF_MESSAGE)]
        if not found:
            return "it has no topic of joint states or transforms"
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        return (
            f"its topics of joint states and transforms: {', '.join(found[:_SHOWN])}{more}; the option "
            "remap=RECORDED:=PLAYED plays a topic under another name"
        )

    def _add_joint_topics(self, index: int, robot: RobotPlan, *, alone: bool) -> None:
        found = False
        for name, rows in self._own_topics(index, robot).items():
            recorded = self.recorded(name)
            if recorded is not None and self._source.topics[recorded] == JOINT_STATE:
                self.joint_rows.setdefault(recorded, []).append((robot, rows))
                found = True
        topics = self._source.topics_of(JOINT_STATE)
        if not found and alone and len(topics) == 1:
            self.joint_rows[topics[0]] = [(robot, self._rows_by_name(robot))]

    def _own_topics(self, index: int, robot: RobotPlan) -> dict[str, Mapping[str, int]]:
        """Return the names of a robot's topics of joint states, with the rows of the names in their messages."""
        names = self._rows_by_name(robot)
        found: dict[str, Mapping[str, int]] = {self.joint_topic(robot): names}
        for topic in self._plan.topics:
            if topic.robot == index and topic.type == JOINT_STATE and topic.role == "publisher":
                # A nested context may have other names.
                local = dict(zip(self._plan.joint_names(topic), topic.dofs, strict=False))
                found[topic.name] = {**found.get(topic.name, names), **local}
        return found

    def _rows_by_name(self, robot: RobotPlan) -> dict[str, int]:
        dofs = self._plan.layout.dofs
        return {dofs[dof.row]: dof.row for joint in robot.joints for dof in joint.dofs}
