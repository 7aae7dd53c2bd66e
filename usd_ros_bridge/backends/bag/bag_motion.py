"""The motion in a bag as rows of a plan's layout: joint states, and transforms for what these leave open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from usd_ros_bridge.backends.bag.bag_clock import LARGEST, BagClock, in_order
from usd_ros_bridge.backends.bag.bag_frames import BagFrameTree, RecordedLink, frame_tree
from usd_ros_bridge.backends.bag.bag_joints import JointTracks, RecordedJoints
from usd_ros_bridge.backends.bag.bag_source import BagSource, FramePair, TimeArray, TransformSeries
from usd_ros_bridge.backends.bag.bag_topics import BagTopics
from usd_ros_bridge.backends.pose_projection import project_on_axis
from usd_ros_bridge.errors import BackendError
from usd_ros_bridge.model.plan import BridgePlan, FramePlan, JointPlan, RobotPlan
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.spatial.transforms import (
    IDENTITY,
    FloatArray,
    compose,
    interpolate_poses,
    inverse,
    normalized,
    pose_array,
    relative,
)

_SECONDS: Final = 1e-9
_UNIT_TOLERANCE: Final = 1e-2
"""Most that the square of a quaternion's length differs from 1: tf2 refuses others, too."""
_SHOWN: Final = 5
"""Names in a report."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BodyTrack:
    """Poses of a body.

    Attributes:
        time_ns: (N,) nanoseconds since the bag's first message, increasing.
        row: Layout row.
        pose: (N, 7) `world_from_body`; in the odometry frame for the robots of `BagMotion.odometry`.
    """

    time_ns: TimeArray
    row: int
    pose: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BagMotion:
    """Everything in a bag that moves a plan's robots.

    Attributes:
        joints: Joints, each row in one of them.
        bodies: Bodies, each row once.
        duration_ns: From the first message to the last, nanoseconds.
        odometry: Prim paths of the robots whose base is posed in the odometry frame.
    """

    joints: tuple[JointTracks, ...]
    bodies: tuple[BodyTrack, ...]
    duration_ns: int
    odometry: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Target:
    """What transforms are needed for: the pose of a body, or the position of a joint.

    Attributes:
        links: Transforms that lead to the body's frame, or to the joint's child.
        parent_links: Those that lead to the joint's parent, from where `links` begin.
        row: Layout row of the body or of the joint.
        carrier_from_frame: The frame in its body.
        joint: The joint, None for a body.
        odometry: Path of the robot whose base this is, in the odometry frame.
    """

    links: tuple[RecordedLink, ...]
    parent_links: tuple[RecordedLink, ...] = ()
    row: int
    carrier_from_frame: FloatArray = field(default_factory=IDENTITY.copy)
    joint: JointPlan | None = None
    odometry: str = ""


def read_motion(plan: BridgePlan, source: BagSource, remap: Mapping[str, str], report: Report) -> BagMotion:
    """Read what moves a plan's robots.

    Args:
        plan: The plan.
        source: The open bag.
        remap: Other names of the bag's topics, by name in the bag.
        report: Reports what does not match.

    Raises:
        BackendError: Nothing in the bag belongs to a robot, or a topic of `remap` is not in the bag.
    """
    topics = BagTopics(plan, source, remap, report)
    series, pairs = source.survey(topics.joint_rows, topics.tf)
    joints = RecordedJoints(plan, topics.joint_rows, series)
    joints.report_names(report)
    covered = joints.covered()
    targets: list[_Target] = []
    for robot in plan.robots:
        tree = frame_tree(plan, robot, pairs, topics.recorded, report)
        targets += _body_targets(plan, robot, tree, report)
        targets += _joint_targets(robot, tree, covered, report)
    transforms = _Transforms(source, targets)
    clock = BagClock([*joints.used, *transforms.moving])
    if clock.fault:
        report(
            "playback.bag_stamps",
            f"{clock.fault}: the times at which the messages were recorded are used instead of stamps",
        )
    positions, bodies = transforms.tracks(targets, clock)
    tracks = (*joints.tracks(clock), *positions)
    if not tracks and not bodies:
        raise BackendError(f"bag {source.name} has nothing that moves the asset's robots; {topics.remedy()}")
    played = covered | {int(row) for each in positions for row in each.rows}
    _report_rest(plan, topics, played, report)
    moved = {body.row for body in bodies}
    return BagMotion(
        joints=tracks,
        bodies=bodies,
        duration_ns=clock.duration_ns,
        odometry=frozenset(target.odometry for target in targets if target.row in moved) - {""},
    )


def _report_rest(plan: BridgePlan, topics: BagTopics, played: set[int], report: Report) -> None:
    """Report robots that the bag has no joints of, or some only."""
    for robot in plan.robots:
        dofs = [dof for joint in robot.joints for dof in joint.dofs if dof.mimic is None]
        resting = [dof.name for dof in dofs if dof.row not in played]
        if not resting:
            continue
        if len(resting) == len(dofs):
            text = f"the bag has no joint states of {robot.path} ({topics.joint_topic(robot)}); {topics.remedy()}"
        else:
            more = f" and {len(resting) - _SHOWN} more" if len(resting) > _SHOWN else ""
            text = f"joints of {robot.path} are not in the bag: {', '.join(resting[:_SHOWN])}{more}"
        report(f"playback.bag_rest:{robot.path}", f"{text}: they stay at rest")


def _body_targets(
    plan: BridgePlan, robot: RobotPlan, tree: BagFrameTree, report: Report
) -> Iterator[_Target]:
    """Return the bodies that no joint moves and whose frames are in the bag."""
    rows = plan.layout.body_index
    driven = {
        rows.get(edge.child_path)
        for edge in robot.edges
        if edge.rigid or any(robot.joints[index].dofs for index in edge.joints)
    }
    frames: dict[int, FramePlan] = {}
    base = robot.frames[robot.base] if robot.base >= 0 else None
    for frame in robot.frames:
        if frame.carrier < 0 or frame.carrier in driven or not tree.has(frame.id):
            continue
        known = frames.get(frame.carrier)
        if known is None or (known is not base and plan.layout.bodies[frame.carrier] == frame.path):
            frames[frame.carrier] = frame
    if tree and base is not None and base.carrier not in frames:
        report(
            f"playback.bag_frames:{robot.path}",
            f"the bag has no transform to {base.id}: {robot.path} stays where the asset places it",
        )
    for row, frame in frames.items():
        reckoned = frame is base and robot.base_transform == "odometry"
        origin = robot.odom_frame if reckoned else robot.parent_frame
        links, start = tree.chain(frame.id, origin)
        if not links:
            continue
        if start != origin:
            report(
                f"playback.bag_frames:{robot.path}",
                f"the bag has no transform from {origin} to {frame.id}: {start} is taken for {origin}",
            )
        yield _Target(
            links=links,
            row=row,
            carrier_from_frame=pose_array(frame.carrier_from_frame),
            odometry=robot.path if reckoned else "",
        )


def _joint_targets(
    robot: RobotPlan, tree: BagFrameTree, covered: set[int], report: Report
) -> Iterator[_Target]:
    """Return the joints without joint states whose transforms are in the bag."""
    frames = {frame.path: frame.id for frame in robot.frames}
    for edge in robot.edges:
        joints = [robot.joints[index] for index in edge.joints]
        dofs = [dof for joint in joints for dof in joint.dofs]
        if not dofs or covered.issuperset(dof.row for dof in dofs):
            continue
        parent, child = frames.get(edge.parent_path, joints[0].parent), frames.get(edge.child_path)
        found = tree.between(parent, child) if child is not None else None
        if found is None:
            continue
        if len(joints) == 1 and len(dofs) == 1 and joints[0].axis is not None:
            yield _Target(links=found[1], parent_links=found[0], row=dofs[0].row, joint=joints[0])
        else:
            report(
                f"playback.project:{edge.child_path}",
                f"the bag has transforms of {edge.child_path}, but its joint has several degrees of freedom: "
                "it stays at rest",
            )


class _Transforms:
    """Transforms that targets need.

    Attributes:
        moving: All but the static ones.
    """

    def __init__(self, source: BagSource, targets: Iterable[_Target]) -> None:
        """Read them."""
        links = {link for target in targets for link in (*target.links, *target.parent_links)}
        wanted: dict[str, set[FramePair]] = {}
        for link in links:
            wanted.setdefault(link.topic, set()).add(link.pair)
        found = {(each.topic, (each.parent, each.child)): each for each in source.transforms(wanted)}
        self._series = {link: found[link.topic, link.pair] for link in links if link[:2] in found}
        self.moving = [each for link, each in self._series.items() if not link.static]
        self._tracks: dict[RecordedLink, tuple[TimeArray, FloatArray]] = {}

    def tracks(
        self, targets: Iterable[_Target], clock: BagClock
    ) -> tuple[tuple[JointTracks, ...], tuple[BodyTrack, ...]]:
        """Return the joints and bodies of targets; those without a usable transform are left out."""
        self._tracks = {
            link: track
            for link, series in self._series.items()
            if (track := _track(series, None if link.static else clock.times(series))) is not None
        }
        joints, bodies = [], []
        for target in targets:
            links = (*target.parent_links, *target.links)
            if any(link not in self._tracks for link in links):
                continue
            time = self._times(links)
            pose = self._composed(target.links, time)
            if target.joint is None:
                pose = compose(pose, inverse(target.carrier_from_frame))
                bodies.append(BodyTrack(time_ns=time, row=target.row, pose=pose))
            else:
                if target.parent_links:
                    pose = relative(self._composed(target.parent_links, time), pose)
                position = project_on_axis(target.joint, pose)[:, None]
                joints.append(JointTracks(time_ns=time, rows=np.array([target.row]), position=position))
        return tuple(joints), tuple(bodies)

    def _times(self, links: Sequence[RecordedLink]) -> TimeArray:
        """Return all times (N,) of transforms; those of static ones do not count."""
        times = [self._tracks[link][0] for link in links if not link.static]
        if not times:
            return np.zeros(1, dtype=np.int64)
        if all(each is times[0] or np.array_equal(each, times[0]) for each in times):
            return times[0]
        merged: TimeArray = np.unique(np.concatenate(times))
        return merged

    def _composed(self, links: Sequence[RecordedLink], time: TimeArray) -> FloatArray:
        """Return the poses (N, 7) at times of the last frame in the first one."""
        pose: FloatArray = np.broadcast_to(IDENTITY, (len(time), 7))
        for link in links:
            own, poses = self._tracks[link]
            if not (link.static or own is time or np.array_equal(own, time)):
                # Relative to the first: float64 has nanoseconds for 100 days.
                start = own[0]
                poses = interpolate_poses((own - start) * _SECONDS, poses, (time - start) * _SECONDS)
            pose = compose(pose, poses)
        return pose


def _track(series: TransformSeries, time: TimeArray | None) -> tuple[TimeArray, FloatArray] | None:
    """Return the times and poses of a transform in order, without those that are none; None without any.

    Args:
        series: The transforms.
        time: Their times, None for a static one: the last one holds all the time.
    """
    rotation = series.parent_from_child[:, 3:]
    with np.errstate(invalid="ignore", over="ignore"):
        unit = np.abs(np.einsum("ij,ij->i", rotation, rotation) - 1.0) <= _UNIT_TOLERANCE
    pose = np.concatenate((series.parent_from_child[:, :3], normalized(rotation)), axis=1)
    finite = unit & (np.abs(pose[:, :3]) <= LARGEST).all(axis=1)
    if not finite.any():
        return None
    log_ns = series.log_ns
    if time is None:
        recorded = np.flatnonzero(finite)
        last = recorded[np.argsort(log_ns[recorded], kind="stable")[-1]]
        return np.zeros(1, dtype=np.int64), pose[last : last + 1]
    if not finite.all():
        time, log_ns, pose = time[finite], log_ns[finite], pose[finite]
    order = in_order(time, log_ns)
    return (time, pose) if order is None else (time[order], pose[order])
