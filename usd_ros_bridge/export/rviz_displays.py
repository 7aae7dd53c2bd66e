"""RViz's displays: the properties of each, for a topic or a robot of a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from usd_ros_bridge.model.message_types import COMPRESSED_IMAGE, message_type
from usd_ros_bridge.model.plan import QosPlan, RobotPlan, TopicPlan

RvizColor = tuple[int, int, int]
"""Red, green and blue, 0 to 255."""

ROBOT_DESCRIPTION: Final = "robot_description"
_LATCHED: Final = QosPlan(reliability="reliable", durability="transient_local", depth=1)
_COMPRESSED: Final = "/compressed"
_MAX_DEPTH: Final = 1000
_POLICIES: Final[Mapping[str, str]] = {
    "reliable": "Reliable",
    "best_effort": "Best Effort",
    "volatile": "Volatile",
    "transient_local": "Transient Local",
    "keep_last": "Keep Last",
    "keep_all": "Keep All",
    "system_default": "System Default",
}


def plugin(name: str) -> str:
    """Return the class of a display, tool or view of rviz_default_plugins."""
    return f"rviz_default_plugins/{name}"


def topic_property(name: str, qos: QosPlan) -> dict[str, Any]:
    """Return the property of a topic, with its quality of service."""
    return {
        "Depth": min(max(qos.depth, 1), _MAX_DEPTH),
        "Durability Policy": _POLICIES[qos.durability],
        "History Policy": _POLICIES[qos.history],
        "Reliability Policy": _POLICIES[qos.reliability],
        "Value": name,
    }


def description_topic(robot: RobotPlan) -> str:
    """Return the topic of a robot's URDF."""
    return f"{robot.namespace.rstrip('/')}/{ROBOT_DESCRIPTION}"


def robot_model(robot: RobotPlan, prefix: str) -> dict[str, Any] | None:
    """Return the display of a robot, None if RViz cannot find its frames.

    Args:
        robot: The robot.
        prefix: What stands before its frame ids. RViz puts a slash between its own prefix and a link.
    """
    if prefix and not prefix.endswith("/"):
        return None
    return {
        "Alpha": 1,
        "Class": plugin("RobotModel"),
        "Collision Enabled": False,
        "Description File": "",
        "Description Source": "Topic",
        "Description Topic": topic_property(description_topic(robot), _LATCHED),
        "Enabled": True,
        "Links": {
            "All Links Enabled": True,
            "Expand Joint Details": False,
            "Expand Link Details": False,
            "Expand Tree": False,
            "Link Tree Style": "Links in Alphabetic Order",
        },
        "Mass Properties": {"Inertia": False, "Mass": False},
        "Name": "RobotModel",
        "TF Prefix": prefix[:-1],
        "Update Interval": 0,
        "Value": True,
        "Visual Enabled": True,
    }


def display_of(topic: TopicPlan, *, name: str, color: RvizColor, enabled: bool) -> dict[str, Any] | None:
    """Return the display of a topic, None if RViz has none for it.

    Args:
        topic: A publisher of the plan.
        name: Name of the display.
        color: Colour of the robot.
        enabled: Show it from the beginning.
    """
    meaning = message_type(topic.type)
    if not meaning.display or (topic.type == COMPRESSED_IMAGE and not topic.name.endswith(_COMPRESSED)):
        # RViz takes the last part of an image's name for its transport.
        return None
    shown = topic_property(topic.name, _subscription_qos(topic, best_effort=meaning.best_effort))
    enabled = enabled and meaning.display not in _OFF
    return {
        "Class": plugin(meaning.display),
        "Enabled": enabled,
        "Name": name,
        "Topic": shown,
        "Value": enabled,
        **_PROPERTIES.get(meaning.display, _colored)(shown, "; ".join(map(str, color))),
    }


def _subscription_qos(topic: TopicPlan, *, best_effort: bool) -> QosPlan:
    """Return what RViz asks for: nothing that the publisher does not offer, and streams without resending."""
    reliability = "best_effort" if best_effort else topic.qos.reliability
    return QosPlan(
        reliability=reliability,
        durability=topic.qos.durability,
        # All history of a stream is of no use on a screen.
        history="keep_last",
        depth=topic.qos.depth,
    )


_OFF: Final = frozenset({"TwistStamped", "AccelStamped"})
"""Displays that are there and off: arrows that cover a robot."""


def _points(size: float) -> dict[str, Any]:
    return {
        "Alpha": 1,
        "Decay Time": 0,
        "Position Transformer": "XYZ",
        "Selectable": True,
        "Size (Pixels)": 3,
        "Size (m)": size,
        "Style": "Flat Squares",
        "Use Fixed Frame": True,
    }


def _laser_scan(_topic: dict[str, Any], color: str) -> dict[str, Any]:
    return {**_points(0.03), "Color": color, "Color Transformer": "FlatColor"}


def _point_cloud(_topic: dict[str, Any], _color: str) -> dict[str, Any]:
    # RViz chooses: RGB8 if the points have colours.
    return {**_points(0.02), "Color Transformer": ""}


def _image(_topic: dict[str, Any], _color: str) -> dict[str, Any]:
    return {"Max Value": 1, "Median window": 5, "Min Value": 0, "Normalize Range": True}


def _odometry(_topic: dict[str, Any], color: str) -> dict[str, Any]:
    return {
        "Angle Tolerance": 0.1,
        "Covariance": {"Value": False},
        "Keep": 100,
        "Position Tolerance": 0.1,
        "Shape": {
            "Alpha": 1,
            "Color": color,
            "Head Length": 0.08,
            "Head Radius": 0.04,
            "Shaft Length": 0.2,
            "Shaft Radius": 0.015,
            "Value": "Arrow",
        },
    }


def _path(_topic: dict[str, Any], color: str) -> dict[str, Any]:
    return {"Alpha": 1, "Buffer Length": 1, "Color": color, "Line Style": "Lines", "Pose Style": "None"}


def _pose(_topic: dict[str, Any], color: str) -> dict[str, Any]:
    return {"Alpha": 1, "Axes Length": 0.3, "Axes Radius": 0.02, "Color": color, "Shape": "Axes"}


def _range(_topic: dict[str, Any], color: str) -> dict[str, Any]:
    return {"Alpha": 0.5, "Buffer Length": 1, "Color": color}


def _map(topic: dict[str, Any], _color: str) -> dict[str, Any]:
    updates = {**topic, "Value": f"{topic['Value']}_updates", "Durability Policy": _POLICIES["volatile"]}
    return {
        "Alpha": 0.7,
        "Color Scheme": "map",
        "Draw Behind": True,
        "Update Topic": updates,
        "Use Timestamp": False,
    }


def _wrench(_topic: dict[str, Any], _color: str) -> dict[str, Any]:
    return {
        "Accept NaN Values": False,
        "Alpha": 1,
        "Arrow Width": 0.2,
        "Force Arrow Scale": 0.02,
        "Force Color": "204; 51; 51",
        "History Length": 1,
        "Torque Arrow Scale": 0.1,
        "Torque Color": "204; 204; 51",
    }


def _colored(_topic: dict[str, Any], color: str) -> dict[str, Any]:
    return {"Alpha": 1, "Color": color}


def _plain(_topic: dict[str, Any], _color: str) -> dict[str, Any]:
    return {}


_PROPERTIES: Final[Mapping[str, Callable[[dict[str, Any], str], dict[str, Any]]]] = {
    "AccelStamped": _plain,
    "Image": _image,
    "LaserScan": _laser_scan,
    "Map": _map,
    "Marker": _plain,
    "MarkerArray": _plain,
    "Odometry": _odometry,
    "Path": _path,
    "PointCloud2": _point_cloud,
    "Pose": _pose,
    "Range": _range,
    "TwistStamped": _plain,
    "Wrench": _wrench,
}
"""Properties of each display. Others have an opacity and the robot's colour."""
