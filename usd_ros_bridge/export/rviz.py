"""RViz configuration of a plan: the text of an .rviz file, and the remaps that RViz has to be started with.

Class and property names are those of rviz_common and rviz_default_plugins (ros2/rviz). Properties that are not
written have RViz's own defaults.
"""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from usd_ros_bridge.export.rviz_displays import (
    RvizColor,
    display_of,
    plugin,
    robot_model,
    topic_property,
)
from usd_ros_bridge.export.yaml_text import yaml_text
from usd_ros_bridge.model.message_types import (
    IMAGE,
    POINT_STAMPED,
    POSE_STAMPED,
    POSE_WITH_COVARIANCE_STAMPED,
    message_type,
)
from usd_ros_bridge.model.plan import WORLD, BridgePlan, FramePlan, QosPlan, RobotPlan, TfOutput, TopicPlan
from usd_ros_bridge.spatial.pose import IDENTITY_POSE, Pose, compose, inverse

MAX_ROBOTS: Final = 16
"""Robots that are shown: RViz loads the meshes of each."""
_MAX_NAMED: Final = 4
"""Robots up to which frames have their names in the view."""
_MAX_IMAGES: Final = 2
"""Images that are enabled: each opens a pane."""
_LISTED: Final = 5
_SEVERAL: Final = 2

_COLORS: Final[tuple[RvizColor, ...]] = (
    (255, 85, 0),
    (0, 170, 255),
    (85, 200, 60),
    (230, 80, 200),
    (255, 205, 0),
    (120, 110, 255),
    (0, 200, 170),
    (255, 120, 140),
)
"""Colours of scans, odometry and similar displays, by robot, on RViz's dark background."""

_TF: Final = "/tf"
_TF_STATIC: Final = "/tf_static"
_NEAREST, _FARTHEST = 1.5, 100.0
"""Distance of the view, m."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RvizConfig:
    """An .rviz file, and how RViz is started with it.

    Attributes:
        text: Content of the file.
        fixed_frame: Frame that everything is shown in.
        remaps: Pairs of names for `-r FROM:=TO`.
        domain_id: Domain of the robots, None for that of the process.
        links: Transforms that nobody publishes, which connect the trees of several robots.
        remarks: What is not shown, and what would show it, one line each.
    """

    text: str
    fixed_frame: str
    remaps: tuple[tuple[str, str], ...] = ()
    domain_id: int | None = None
    links: tuple[StaticLink, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def link_remark(self) -> str:
        """Return what happens without `links`, "" for none."""
        if not self.links:
            return ""
        frames = listed([each.child for each in self.links])
        return (
            f"nothing connects {frames} to {self.fixed_frame}: RViz cannot show what is in them; the launch files do "
            "it with rviz:=true; base_transform ground_truth puts all robots in one tree"
        )


@dataclass(frozen=True, slots=True)
class StaticLink:
    """A transform that connects the frame of a robot's odometry to that of the others, as they stand at rest."""

    parent: str
    child: str
    parent_from_child: Pose


@dataclass(frozen=True, slots=True)
class _Shown:
    """A robot that is shown.

    Attributes:
        index: Index in the plan.
        robot: Its plan.
        output: Topics of its transforms, and what stands before its frame ids there.
        root: Frame that its frames hang from, as it is on these topics.
        world_from_root: That frame at rest.
    """

    index: int
    robot: RobotPlan
    output: TfOutput
    root: str
    world_from_root: Pose


def rviz_config(plan: BridgePlan) -> RvizConfig:
    """Return the RViz configuration of a plan.

    RViz shows the transforms of one pair of topics. If the robots have several, those of the pair with the most robots
    are shown.
    """
    robots, domain_id, remarks = _shown_robots(plan)
    fixed_frame, links = _fixed_frame(robots)
    output = robots[0].output if robots else TfOutput(tf=_TF, tf_static=_TF_STATIC)
    displays, of_displays = _displays(plan, robots, domain_id)
    remarks += of_displays
    config = {
        "Panels": _panels(),
        "Visualization Manager": {
            "Class": "",
            "Displays": [_grid(), _tf_display(len(plan.robots)), *displays],
            "Enabled": True,
            "Global Options": {
                "Background Color": "48; 48; 48",
                "Fixed Frame": fixed_frame,
                "Frame Rate": 30,
            },
            "Name": "root",
            "Tools": _tools(plan, robots, domain_id),
            "Transformation": {"Current": {"Class": plugin("TF")}},
            "Value": True,
            "Views": {"Current": _view(robots, in_world=bool(links)), "Saved": None},
        },
        "Window Geometry": {"Height": 900, "Width": 1400, "Hide Left Dock": False, "Hide Right Dock": False},
    }
    return RvizConfig(
        text=yaml_text(config, title=f"RViz configuration of {plan.asset}, made by usd_ros_bridge"),
        fixed_frame=fixed_frame,
        remaps=_remaps(output),
        domain_id=domain_id,
        links=tuple(links),
        remarks=tuple(remarks),
    )


def rviz_command(
    remaps: Sequence[tuple[str, str]],
    *,
    domain_id: int | None = None,
    file: str = "",
    use_sim_time: bool = False,
) -> str:
    """Return a command line that starts RViz, for a shell.

    Args:
        remaps: Pairs of names for `-r FROM:=TO`.
        domain_id: Domain of the robots, None for that of the process.
        file: The .rviz file, "" for none.
        use_sim_time: Follow /clock, which the bridge publishes.
    """
    words = ["rviz2", *(["-d", file] if file else [])]
    ros = [word for pair in remaps for word in ("-r", ":=".join(pair))]
    ros += ["-p", "use_sim_time:=true"] if use_sim_time else []
    line = shlex.join([*words, *(["--ros-args", *ros] if ros else [])])
    return line if domain_id is None else f"ROS_DOMAIN_ID={domain_id} {line}"


def start_lines(robots: Sequence[RobotPlan], *, use_sim_time: bool = False) -> tuple[str, ...]:
    """Return lines that say how RViz is started for robots whose transforms are not on /tf; () if it needs no remaps.

    Args:
        robots: Robots of a plan. Topic names are as RViz sees them, after remaps.
        use_sim_time: As for `rviz_command`.
    """
    if any(output.tf == _TF for robot in robots for output in robot.tf_outputs):
        return ()
    named = [(robot, robot.tf_outputs[0]) for robot in robots if robot.tf_outputs]
    if not named:
        return ()
    robot, output = named[0]
    command = rviz_command(_remaps(output), domain_id=robot.domain_id, use_sim_time=use_sim_time)
    if len(named) == 1:
        return (f"RViz: {command}",)
    line = (
        f"RViz: {len(named)} robots, each with transforms of its own; for {robot.path}: {command}; for all on /tf: "
        "tf_output both"
    )
    return (line,)


# --- Robots and frames -----------------------------------------------------------------------------------------


def _shown_robots(plan: BridgePlan) -> tuple[list[_Shown], int | None, list[str]]:
    """Return the robots that one RViz can show, their domain, and what is left out."""
    if not plan.robots:
        return [], None, ["the asset has no robot: RViz shows a grid"]
    plain = TfOutput(tf=_TF, tf_static=_TF_STATIC, prefix=plan.options.frame_prefix)
    pairs = Counter(
        (robot.domain_id, output.tf) for robot in plan.robots for output in robot.tf_outputs or (plain,)
    )
    (domain_id, topic), count = max(pairs.items(), key=lambda each: each[1])
    robots = [
        _shown(plan, index, output)
        for index, robot in enumerate(plan.robots)
        for output in robot.tf_outputs or (plain,)
        if (robot.domain_id, output.tf) == (domain_id, topic)
    ]
    remarks = []
    if any(robot.domain_id != domain_id for robot in plan.robots):
        remarks.append(
            "the robots are in several domains: RViz shows those of "
            + ("the default domain" if domain_id is None else f"domain {domain_id}")
        )
    hidden = [r.path for r in plan.robots if r.domain_id == domain_id and not _has_topic(r, topic, plain)]
    if hidden:
        remarks.append(
            f"RViz shows the transforms of one topic, {topic}: {listed(hidden)} "
            f"{'is' if len(hidden) == 1 else 'are'} left out; tf_output both has all robots on /tf"
        )
    if count > MAX_ROBOTS:
        remarks.append(
            f"{count} robots: RViz shows the first {MAX_ROBOTS}, without the axes of their frames; "
            "contexts (--contexts) chooses others"
        )
    return robots[:MAX_ROBOTS], domain_id, remarks


def _has_topic(robot: RobotPlan, topic: str, plain: TfOutput) -> bool:
    return any(output.tf == topic for output in robot.tf_outputs or (plain,))


def _shown(plan: BridgePlan, index: int, output: TfOutput) -> _Shown:
    robot, prefix = plan.robots[index], output.prefix
    if not robot.frames:
        return _Shown(index, robot, output, robot.parent_frame, IDENTITY_POSE)
    frame = robot.frames[max(robot.base, 0)]
    if robot.base >= 0 and robot.base_transform == "none":
        return _Shown(index, robot, output, prefix + frame.id, _world_pose(plan, frame))
    while frame.parent_index >= 0:
        frame = robot.frames[frame.parent_index]
    root = frame.parent if frame.parent == robot.parent_frame else prefix + frame.parent
    return _Shown(
        index, robot, output, root, compose(_world_pose(plan, frame), inverse(frame.parent_from_frame))
    )


def _world_pose(plan: BridgePlan, frame: FramePlan) -> Pose:
    """Return `world_from_frame` at rest."""
    if frame.carrier < 0:
        return frame.carrier_from_frame
    x, y, z, qx, qy, qz, qw = plan.layout.body_pose[frame.carrier].tolist()
    return compose(Pose((x, y, z), (qx, qy, qz, qw)), frame.carrier_from_frame)


def _fixed_frame(robots: Sequence[_Shown]) -> tuple[str, list[StaticLink]]:
    """Return the frame that everything is shown in, and what connects other trees to it."""
    roots = {each.root: each for each in reversed(robots)}
    if len(roots) < _SEVERAL:
        return next(iter(roots), WORLD), []
    fixed = Counter(each.robot.parent_frame for each in robots).most_common(1)[0][0]
    return fixed, [
        StaticLink(fixed, root, each.world_from_root)
        for root, each in reversed(roots.items())
        if root != fixed
    ]


def listed(names: Sequence[str]) -> str:
    """Return names for people, not more than a line holds."""
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")


def _remaps(output: TfOutput) -> tuple[tuple[str, str], ...]:
    pairs = ((_TF, output.tf), (_TF_STATIC, output.tf_static))
    return tuple((plain, name) for plain, name in pairs if plain != name)


# --- Displays --------------------------------------------------------------------------------------------------


def _displays(
    plan: BridgePlan, robots: Sequence[_Shown], domain_id: int | None
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the displays of robots, in a group each if there are several, and what cannot be shown."""
    found: list[dict[str, Any]] = []
    remarks: list[str] = []
    images, unknown = 0, []
    for number, shown in enumerate(robots):
        color = _COLORS[number % len(_COLORS)]
        model = robot_model(shown.robot, shown.output.prefix)
        if model is None:
            remarks.append(
                f"RViz puts a slash between prefix and link: it cannot show the model of {shown.robot.path} with "
                f"the frame prefix {shown.output.prefix!r}"
            )
        of_robot = [] if model is None else [model]
        frames = {shown.output.prefix + frame.id for frame in shown.robot.frames} | {shown.root}
        for topic in _topics_of(plan, shown.index, domain_id):
            prefixed = shown.output.prefix + topic.frame_id
            known = topic.frame_id in frames or prefixed not in frames
            is_image = message_type(topic.type).display == message_type(IMAGE).display
            enabled = images < _MAX_IMAGES if is_image else known
            display = display_of(topic, name=_display_name(topic, shown.robot), color=color, enabled=enabled)
            if display is not None:
                images += is_image
                unknown += [] if known or is_image else [topic.name]
                of_robot.append(display)
        found += of_robot if len(robots) == 1 else [_group(shown.robot, of_robot)]
    for topic in _topics_of(plan, -1, domain_id):
        display = display_of(topic, name=topic.name.lstrip("/"), color=_COLORS[-1], enabled=True)
        found += [] if display is None else [display]
    if unknown:
        remarks.append(
            f"the frames of {listed(unknown)} are not on the topic that RViz shows: their displays are off; "
            "tf_output global puts the prefix of /tf in headers, too"
        )
    return found, remarks


def _topics_of(plan: BridgePlan, robot: int, domain_id: int | None) -> Iterator[TopicPlan]:
    for topic in plan.topics:
        # One that starts disabled can be enabled while the bridge runs.
        is_served = topic.enabled or not topic.starts_enabled
        if is_served and (topic.robot, topic.role, topic.domain_id) == (robot, "publisher", domain_id):
            yield topic


def _display_name(topic: TopicPlan, robot: RobotPlan) -> str:
    return topic.name.removeprefix(robot.namespace).lstrip("/") or topic.name


def _group(robot: RobotPlan, displays: list[dict[str, Any]]) -> dict[str, Any]:
    name = robot.namespace.strip("/") or robot.name or robot.path
    return {"Class": "rviz_common/Group", "Displays": displays, "Enabled": True, "Name": name}


def _grid() -> dict[str, Any]:
    return {
        "Alpha": 0.5,
        "Cell Size": 1,
        "Class": plugin("Grid"),
        "Color": "160; 160; 164",
        "Enabled": True,
        "Line Style": {"Line Width": 0.03, "Value": "Lines"},
        "Name": "Grid",
        "Normal Cell Count": 0,
        "Offset": {"X": 0, "Y": 0, "Z": 0},
        "Plane": "XY",
        "Plane Cell Count": 10,
        "Reference Frame": "<Fixed Frame>",
        "Value": True,
    }


def _tf_display(robots: int) -> dict[str, Any]:
    enabled = robots <= MAX_ROBOTS
    return {
        "Class": plugin("TF"),
        "Enabled": enabled,
        "Frame Timeout": 15,
        "Frames": {"All Enabled": True},
        "Marker Scale": 0.3,
        "Name": "TF",
        "Show Arrows": False,
        "Show Axes": True,
        "Show Names": robots <= _MAX_NAMED,
        "Update Interval": 0,
        "Value": enabled,
    }


# --- Tools and view --------------------------------------------------------------------------------------------


def _panels() -> list[dict[str, Any]]:
    return [
        {"Class": "rviz_common/Displays", "Name": "Displays"},
        {"Class": "rviz_common/Selection", "Name": "Selection"},
        {"Class": "rviz_common/Tool Properties", "Name": "Tool Properties"},
        {"Class": "rviz_common/Views", "Name": "Views"},
        {"Class": "rviz_common/Time", "Name": "Time", "SyncMode": 0, "SyncSource": ""},
    ]


def _tools(plan: BridgePlan, robots: Sequence[_Shown], domain_id: int | None) -> list[dict[str, Any]]:
    """Return the tools; those that publish do it to a subscription of the plan, else where Nav2 listens."""
    qos = QosPlan(depth=5)
    namespace = robots[0].robot.namespace if robots else "/"

    def topic(type_name: str, name: str) -> dict[str, Any]:
        shown = {each.index for each in robots}
        subscribed = [
            each.name
            for each in plan.topics
            if (each.role, each.type, each.domain_id) == ("subscription", type_name, domain_id)
            and each.enabled
            and each.robot in shown
        ]
        found = subscribed[0] if subscribed else f"{namespace.rstrip('/')}/{name}"
        return topic_property(found, qos)

    return [
        {"Class": plugin("Interact"), "Hide Inactive Objects": True},
        {"Class": plugin("MoveCamera")},
        {"Class": plugin("Select")},
        {"Class": plugin("FocusCamera")},
        {"Class": plugin("Measure"), "Line color": "128; 128; 0"},
        {
            "Class": plugin("SetInitialPose"),
            "Covariance x": 0.25,
            "Covariance y": 0.25,
            "Covariance yaw": round((math.pi / 12.0) ** 2, 6),
            "Topic": topic(POSE_WITH_COVARIANCE_STAMPED, "initialpose"),
        },
        {"Class": plugin("SetGoal"), "Topic": topic(POSE_STAMPED, "goal_pose")},
        {
            "Class": plugin("PublishPoint"),
            "Single click": True,
            "Topic": topic(POINT_STAMPED, "clicked_point"),
        },
    ]


def _view(robots: Sequence[_Shown], *, in_world: bool) -> dict[str, Any]:
    """Return a view from which all robots are seen as they stand at rest."""
    points = [pose.translation for each in robots for pose in _frame_poses(each, in_world=in_world)]
    points = points or [(0.0, 0.0, 0.0)]
    low, high = ([choose(column) for column in zip(*points, strict=True)] for choose in (min, max))
    center = [round((a + b) / 2.0, 3) for a, b in zip(low, high, strict=True)]
    distance = min(max(2.0 * math.dist(low, high), _NEAREST), _FARTHEST)
    return {
        "Class": plugin("Orbit"),
        "Distance": round(distance, 3),
        "Enable Stereo Rendering": {"Value": False},
        "Focal Point": dict(zip("XYZ", center, strict=True)),
        "Focal Shape Fixed Size": True,
        "Focal Shape Size": 0.05,
        "Invert Z Axis": False,
        "Name": "Current View",
        "Near Clip Distance": 0.01,
        "Pitch": 0.5,
        "Target Frame": "<Fixed Frame>",
        "Value": "Orbit (rviz)",
        "Yaw": 0.785,
    }


def _frame_poses(shown: _Shown, *, in_world: bool) -> list[Pose]:
    """Return the poses of a robot's frames at rest, in the world or in its root frame."""
    start = shown.world_from_root if in_world else IDENTITY_POSE
    poses: list[Pose] = []
    for frame in shown.robot.frames:
        above = poses[frame.parent_index] if frame.parent_index >= 0 else start
        poses.append(compose(above, frame.parent_from_frame))
    return poses
