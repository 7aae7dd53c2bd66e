"""Plan sensors: a camera, a lidar or an IMU at a link, with the topics that it publishes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import chain, count

from usd_ros_bridge.errors import OptionError, did_you_mean
from usd_ros_bridge.model.message_types import CAMERA_INFO, IMAGE, IMU, LASER_SCAN
from usd_ros_bridge.model.plan import BridgePlan, RobotPlan
from usd_ros_bridge.model.records import FrameRecord, TopicRecord
from usd_ros_bridge.model.scaffold import (
    Decision,
    Opinion,
    Property,
    SensorKind,
    SensorRequest,
    Survey,
    free_name,
)
from usd_ros_bridge.planning.names import is_below, prim_name, valid_frame_id, valid_name
from usd_ros_bridge.planning.robot_scaffold import is_link, properties_of

RATES: dict[SensorKind, float] = {"camera": 15.0, "lidar": 10.0, "imu": 100.0}
"""Hz."""
QUEUE_DEPTH = 5
RESOLUTION = (640, 480)
FOCAL_LENGTH = 0.00193
APERTURE = (0.002652, 0.001989)
"""m: with the focal length, an angle of view of 69 degrees by 55."""
CLIPPING = (0.05, 100.0)
"""m."""
_APERTURE_UNITS = 10.0
"""Focal lengths and apertures are in tenths of a stage unit."""
_ALONG_X = (0.5, 0.5, -0.5, -0.5)
"""w, x, y, z: a camera, which looks along -Z with +Y up, looks along X with +Z up."""
_HALF_TURN = (0.0, 1.0, 0.0, 0.0)
"""w, x, y, z: half a turn about X, between a camera and its optical frame (REP 0158 section 2.8)."""
_OPTICAL = re.compile(r"optical", re.IGNORECASE)
_SUFFIX = re.compile(r"(_optical)?_(frame|link)$", re.IGNORECASE)

ChildrenOf = Callable[[str], frozenset[str]]
"""Looks up the names of a prim's children."""


class RobotSensors:
    """The requested sensors.

    Attributes:
        opinions: What the layer says about them.
        decisions: Those taken so far.
    """

    def __init__(self, plan: BridgePlan, survey: Survey, children_of: ChildrenOf) -> None:
        """Find the links.

        Args:
            plan: Of the asset.
            survey: Of the same stage.
            children_of: Looks up names that are taken.
        """
        self._plan, self._survey, self._children_of = plan, survey, children_of
        self._links = links(plan, survey)
        self._topics = {topic.name for topic in plan.topics}
        self._frames = {frame.id for robot in plan.robots for frame in robot.frames}
        self.opinions: list[Opinion] = []
        self.decisions: list[Decision] = []

    def add(self, request: SensorRequest, *, single: bool) -> None:
        """Add a sensor.

        Args:
            request: Its kind and link.
            single: There is no other of its kind: its topic needs no name of its own.

        Raises:
            OptionError: There is no such link, or nothing can be authored there.
        """
        path = self.link(request)
        robot = next(each for each in self._plan.robots if path == each.path or is_below(path, each.path))
        name = valid_name(_SUFFIX.sub("", prim_name(path)) or prim_name(path))
        if path not in {frame.path for frame in robot.frames}:
            self._add_frame(path)
        if request.kind == "camera":
            self._add_camera(path, robot, name)
            return
        message, topic = (LASER_SCAN, "scan") if request.kind == "lidar" else (IMU, "imu")
        (topic,) = self._topic_names(robot, [""] if single else [name], name, [topic])
        prim = f"{path}/{free_name(request.kind, self._children_of(path))}"
        self.opinions.append(_topic(prim, topic, message, RATES[request.kind]))
        detail = "axes of the link, X ahead" if request.kind == "lidar" else "axes of the link"
        self._say(request.kind, f"{topic} at {prim_name(path)}, {RATES[request.kind]:g} Hz, {detail}", prim)

    def link(self, request: SensorRequest) -> str:
        """Return the prim path of a request's link.

        Raises:
            OptionError: There is none, several have its name, or nothing can be authored there.
        """
        flag, name = f"--{request.kind}", request.link
        found = (
            [name]
            if name in {path for paths in self._links.values() for path in paths}
            else self._links.get(name, [])
        )
        if not found:
            hint = did_you_mean(name, self._links) or "`usd_ros_bridge inspect` lists the frames"
            raise OptionError(f"{flag} {name}: the asset has no link of this name; {hint}")
        if len(found) > 1:
            raise OptionError(
                f"{flag} {name}: several links have this name; name a path: {', '.join(sorted(found))}"
            )
        if found[0] in self._survey.closed:
            raise OptionError(
                f"{flag} {name}: {found[0]} is an instance, or below one: nothing can be authored there"
            )
        return found[0]

    def _add_frame(self, path: str) -> None:
        shown = next((x.display_name for x in self._survey.xforms if x.path == path), "")
        name = valid_frame_id(shown) or prim_name(path)
        properties = properties_of(FrameRecord, id=name) if name != prim_name(path) else ()
        self.opinions.append(Opinion(path=path, schemas=("RosFrameAPI",), properties=properties))

    def _add_camera(self, link: str, robot: RobotPlan, name: str) -> None:
        meters = self._survey.meters
        optical = bool(_OPTICAL.search(prim_name(link)))
        camera = f"{link}/{free_name('camera', self._children_of(link))}"
        per_unit = _APERTURE_UNITS / meters
        self.opinions.append(
            Opinion(
                path=camera,
                define="Camera",
                inside=True,
                properties=(
                    Property(
                        name="clippingRange",
                        type_name="float2",
                        value=tuple(each / meters for each in CLIPPING),
                    ),
                    Property(name="focalLength", type_name="float", value=FOCAL_LENGTH * per_unit),
                    Property(name="horizontalAperture", type_name="float", value=APERTURE[0] * per_unit),
                    Property(
                        name="usd_ros_bridge:camera:resolution",
                        type_name="int2",
                        value=RESOLUTION,
                        custom=True,
                    ),
                    Property(name="verticalAperture", type_name="float", value=APERTURE[1] * per_unit),
                    *_orientation(_HALF_TURN if optical else _ALONG_X),
                ),
            )
        )
        above, frame = camera, prim_name(link)
        if not optical:
            frame = free_name(f"{name}_optical_frame", frozenset(self._frames))
            self._frames.add(frame)
            above = f"{camera}/{frame}"
            self.opinions.append(
                Opinion(
                    path=above,
                    define="Xform",
                    inside=True,
                    schemas=("RosFrameAPI",),
                    properties=_orientation(_HALF_TURN),
                )
            )
        topics = self._topic_names(robot, [name], f"{name}_camera", ["image_raw", "camera_info"])
        for topic, message in zip(topics, (IMAGE, CAMERA_INFO), strict=True):
            self.opinions.append(_topic(f"{above}/{prim_name(topic)}", topic, message, RATES["camera"]))
        width, height = RESOLUTION
        where = "along Z" if optical else "along X"
        self._say(
            "camera",
            f"{', '.join(topics)} at {prim_name(link)}, {where}, {width} x {height}, {RATES['camera']:g} Hz, "
            f"frame {frame}",
            camera,
        )

    def _topic_names(
        self, robot: RobotPlan, scopes: Sequence[str], otherwise: str, leaves: Sequence[str]
    ) -> list[str]:
        """Return names of topics of one sensor, which the robot has not.

        Args:
            robot: The robot.
            scopes: What may stand before the names; "" for nothing.
            otherwise: What stands there, with a number if need be, where those are taken.
            leaves: Last parts of the names.
        """
        namespace = robot.namespace.rstrip("/")
        for scope in chain(scopes, [otherwise], (f"{otherwise}_{number}" for number in count(2))):
            names = [f"{scope}/{leaf}" if scope else leaf for leaf in leaves]
            full = {f"{namespace}/{name}" for name in names}
            if self._topics.isdisjoint(full):
                self._topics |= full
                return names
        raise AssertionError("numbers do not end")

    def _say(self, subject: str, text: str, path: str) -> None:
        self.decisions.append(Decision(outcome="written", subject=subject, text=text, path=path))


def links(plan: BridgePlan, survey: Survey) -> dict[str, list[str]]:
    """Return the paths of all links by name: frames, bodies, and Xforms that stand for links without mass."""
    found: dict[str, dict[str, None]] = {}
    for robot in plan.robots:
        bodies = {plan.layout.bodies[row] for row in robot.bodies}
        names = [(frame.id, frame.path) for frame in robot.frames]
        names += [(prim_name(body), body) for body in bodies]
        for xform in survey.xforms:
            if is_below(xform.path, robot.path) and is_link(xform, bodies):
                names.append((valid_frame_id(xform.display_name) or prim_name(xform.path), xform.path))
        for name, path in names:
            found.setdefault(name, {})[path] = None
    return {name: list(paths) for name, paths in found.items()}


def _orientation(rotation: tuple[float, float, float, float]) -> tuple[Property, ...]:
    return (
        Property(name="xformOp:orient", type_name="quatf", value=rotation),
        Property(name="xformOpOrder", type_name="token[]", value=["xformOp:orient"], uniform=True),
    )


def _topic(path: str, name: str, message: str, rate: float) -> Opinion:
    return Opinion(
        path=path,
        define="Xform",
        inside=True,
        schemas=("RosTopicAPI",),
        properties=properties_of(
            TopicRecord,
            role="publisher",
            name=name,
            type=message,
            publish_rate=rate,
            # AMCL subscribes to scans reliably since Kilted. A best-effort subscription hears a reliable scan, too.
            reliability="reliable" if message == LASER_SCAN else "best_effort",
            durability="volatile",
            history="keep_last",
            depth=QUEUE_DEPTH,
        ),
    )


def plan_sensors(
    plan: BridgePlan, survey: Survey, requests: Sequence[SensorRequest], children_of: ChildrenOf
) -> tuple[list[Opinion], list[Decision]]:
    """Decide about the requested sensors.

    Args:
        plan: Of the asset.
        survey: Of the same stage.
        requests: Kinds and links.
        children_of: Looks up names that are taken.

    Raises:
        OptionError: A link is not there, or nothing can be authored there.
    """
    sensors = RobotSensors(plan, survey, children_of)
    # A link may be named twice: by its name, and by its path.
    asked = {(request.kind, sensors.link(request)): request for request in reversed(requests)}
    kinds = [kind for kind, _ in asked]
    for request in reversed(asked.values()):
        sensors.add(request, single=kinds.count(request.kind) == 1)
    return sensors.opinions, sensors.decisions
