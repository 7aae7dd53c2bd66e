"""What the class of a sensor model gets: its set-up once, and a context for each measurement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from usd_ros_bridge.backends.async_sensors import SensorNoise
from usd_ros_bridge.backends.base import BodyContacts, RayCaster, RayHits
from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.model.sensor_schemas import SensorNeed
from usd_ros_bridge.model.sensors import CameraModel
from usd_ros_bridge.model.state import SensorSample
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.spatial.transforms import FloatArray, rotate

Measured = Mapping[str, ArrayLike]
"""Measured arrays by name; `SensorBackend` says which, by message type."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SensorSetup:
    """A sensor of a model, as its class gets it.

    Attributes:
        path: Prim path of the publisher.
        prim: Prim path of what has the schema: the publisher's, or one above.
        type: Message type of the publisher.
        rate: Hz.
        values: The model's attributes, by its own names, in SI units.
        body: Prim path of the body that carries the sensor, "" for the world.
        robot: Prim path of its robot, "" for none.
        joints: Names of the joints of its robot, in the order of `SensorContext.joint_position`.
        camera: The camera at or above the prim, None for none.
        surfaces: Prim paths of what rays can hit, or what segmentation distinguishes: `RayHits.surface` are indices.
        surface_bodies: Prim path of the body of each surface, "" for the world.
        scene: Values of the model's scene attributes, by its own names, by prim path.
        report: Call `report(kind, message)` to warn people; each kind is shown once. From any thread.
    """

    path: str
    prim: str
    type: str
    rate: float
    values: Mapping[str, Any]
    body: str = ""
    robot: str = ""
    joints: tuple[str, ...] = ()
    camera: CameraModel | None = None
    surfaces: tuple[str, ...] = ()
    surface_bodies: tuple[str, ...] = ()
    scene: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    report: Report

    def of_surfaces(self, name: str, missing: float) -> NDArray[np.float64]:
        """Return a scene attribute of each surface: that of the nearest prim at or above it.

        Args:
            name: The model's own name of the attribute.
            missing: Value where no such prim authors it, and of no hit.

        Returns:
            (len(surfaces) + 1,) The last one is that of no hit, so that `RayHits.surface` are indices.
        """
        authored = self.scene[name]
        return np.array([*(_nearest(authored, path, missing) for path in self.surfaces), missing])


def _nearest(authored: Mapping[str, Any], path: str, missing: float) -> float:
    while path:
        if path in authored:
            return float(authored[path])
        path = path.rpartition("/")[0]
    return missing


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SensorInputs:
    """What a sensor reads of one state, copied: it may be measured in another thread while the loop continues.

    Attributes:
        time_ns: Bridge time of the state, nanoseconds; of the newest image, if it needs images.
        pose: (7,) `world_from_sensor`.
        joints: (3, J) positions, velocities and efforts of the robot's joints.
        motion: Twist (6,) and acceleration (6,) of the sensor; None if it needs none.
        bodies: Poses (7,) `world_from_body` by prim path; None if it needs none.
        contacts: Contacts of the body that carries it; None if it needs none.
        images: Newest images by kind, None before the first one: then nothing is measured.
        poses: The state that rays are cast in; None if it needs none.
    """

    time_ns: int
    pose: FloatArray
    joints: FloatArray
    motion: tuple[FloatArray, FloatArray] | None = None
    bodies: Mapping[str, FloatArray] | None = None
    contacts: BodyContacts | None = None
    images: Mapping[str, SensorSample | None] = field(default_factory=dict)
    poses: Any = None


class SensorContext:
    """One measurement: the state that it is of, and what it may ask. Valid during `measure`.

    Positions are in metres, quaternions x y z w. Values that the model did not declare in `needs` raise BridgeError.

    Attributes:
        time_ns: Bridge time of the state, nanoseconds; of the newest image, if the model needs images. It is the stamp
            of what is measured.
        pose: (7,) `world_from_sensor`, the pose of the publisher's prim.
        joint_position: (J,) of the robot's joints, rad or m, in the order of `SensorSetup.joints`.
        joint_velocity: (J,) rad/s or m/s, NaN if the backend measures none.
        joint_effort: (J,) N m or N, NaN if the backend measures none.
    """

    def __init__(
        self,
        setup: SensorSetup,
        inputs: SensorInputs,
        *,
        caster: RayCaster | None,
        noise: SensorNoise,
        noisy: bool,
    ) -> None:
        """Store the arguments.

        Args:
            setup: The sensor.
            inputs: The state.
            caster: Casts rays; None if the model needs none.
            noise: Noise of the sensor.
            noisy: Sensors have noise.
        """
        self._setup, self._inputs, self._caster = setup, inputs, caster
        self._noise, self._noisy = noise, noisy
        self.time_ns = inputs.time_ns
        self.pose = inputs.pose
        self.joint_position, self.joint_velocity, self.joint_effort = inputs.joints

    @property
    def twist(self) -> FloatArray:
        """(6,) linear then angular velocity of the sensor in the world frame, m/s and rad/s (need: motion)."""
        return self._motion()[0]

    @property
    def acceleration(self) -> FloatArray:
        """(6,) linear then angular acceleration of the sensor in the world frame, without gravity (need: motion)."""
        return self._motion()[1]

    @property
    def contacts(self) -> BodyContacts:
        """Contacts of the body that carries the sensor (need: contacts)."""
        if self._inputs.contacts is None:
            raise self._missing("contacts")
        return self._inputs.contacts

    def body_pose(self, path: str) -> FloatArray:
        """Return `world_from_body` (7,) of any body of a robot (need: bodies).

        Raises:
            KeyError: There is no such body.
        """
        if self._inputs.bodies is None:
            raise self._missing("bodies")
        return self._inputs.bodies[path]

    def image(self, kind: SensorNeed) -> NDArray[Any]:
        """Return the newest image of the camera (need: the kind). Before the first one, nothing is measured.

        Args:
            kind: `color`: (H, W, 3) uint8; `depth`: (H, W) float32, m along the optical axis, inf for nothing;
                `segmentation`: (H, W) int32, index in `SensorSetup.surfaces`, -1 for nothing.
        """
        sample = self._inputs.images.get(kind)
        if sample is None:
            raise self._missing(kind)
        return sample.arrays["data"]

    def cast_rays(
        self,
        directions: ArrayLike,
        *,
        origins: ArrayLike = (0.0, 0.0, 0.0),
        reach: float = np.inf,
        exclude_robot: bool = False,
    ) -> RayHits:
        """Cast rays, which pass through the body that carries the sensor (need: rays).

        Args:
            directions: (N, 3) unit vectors in the sensor's frame.
            origins: (N, 3) in the sensor's frame, m; or (3,) for all rays.
            reach: Longest distance, m.
            exclude_robot: Pass through all bodies of the robot.
        """
        if self._caster is None or self._inputs.poses is None:
            raise self._missing("rays")
        rotation = self.pose[3:]
        return self._caster.cast(
            self._inputs.poses,
            self.pose[:3] + rotate(rotation, np.asarray(origins, dtype=np.float64)),
            rotate(rotation, np.asarray(directions, dtype=np.float64)),
            reach=reach,
            body=self._setup.body,
            robot=exclude_robot,
        )

    @cached_property
    def random(self) -> np.random.Generator:
        """Random numbers of this measurement: they depend on the bridge's seed, the prim and the stamp alone."""
        return self._noise.generator(self.time_ns)

    def normal(self, stddev: float, shape: int | tuple[int, ...]) -> NDArray[np.float64]:
        """Return Gaussian noise; zeros if the deviation is 0, or if noise is off."""
        if stddev <= 0.0 or not self._noisy:
            return np.zeros(shape)
        return self.random.normal(0.0, stddev, shape)

    def _motion(self) -> tuple[FloatArray, FloatArray]:
        if self._inputs.motion is None:
            raise self._missing("motion")
        return self._inputs.motion

    def _missing(self, need: str) -> BridgeError:
        return BridgeError(f"{self._setup.path}: the sensor model does not declare that it needs {need}")


class MeasuringSensor(Protocol):
    """What `SensorModel.measure` names: a class, called with a SensorSetup.

    With `beside_loop`, it is made by the thread that opens the bridge, and `measure` is called by a thread that all
    sensors of the model share. It may have `reset()`, called when time starts over, and `close()`.
    """

    def measure(self, context: SensorContext) -> Measured | None:
        """Measure the context's state. None: there is nothing to publish. An exception is reported; the rest runs."""
        ...
