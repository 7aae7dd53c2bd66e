"""Instruments: what measures one quantity of the simulation's state, each at the site of its sensor, with noise.

IMU, wrench, contact, GNSS, magnetometer, barometer and thermometer; `rays` has those that cast rays.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import atan2, cos, degrees, hypot, radians, sin, sqrt
from typing import Any, Final, Protocol

import mujoco
import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.backends.async_sensors import SensorNoise
from usd_ros_bridge.backends.mujoco.compiled_model import CompiledModel
from usd_ros_bridge.backends.mujoco.spec_builder import SpecBuilder, add_site
from usd_ros_bridge.model.physics import WORLD_BODY, PhysicsScene
from usd_ros_bridge.model.sensors import (
    BarometerSensor,
    CameraSensor,
    ContactSensor,
    GnssSensor,
    ImuSensor,
    MagnetometerSensor,
    Sensor,
    ThermometerSensor,
    WrenchSensor,
)
from usd_ros_bridge.spatial.pose import Pose
from usd_ros_bridge.spatial.transforms import (
    FloatArray,
    exponential,
    pose_array,
    quaternion_multiply,
    to_matrix,
)

Arrays = Mapping[str, NDArray[Any]]


class Instrument(Protocol):
    """Measure one quantity."""

    def arrays(self, data: Any, time_ns: int) -> Arrays:
        """Return the measurement of the state in `data` (MjData), by name of the array."""
        ...


def add_sensor_sites(builder: SpecBuilder, scene: PhysicsScene) -> None:
    """Add a site for every sensor of a scene, except cameras, before the model is compiled."""
    for sensor in scene.sensors:
        if not isinstance(sensor, CameraSensor):
            add_site(builder.body(sensor.body), _site_name(sensor), pose_array(sensor.body_from_sensor))


def site_id(compiled: CompiledModel, sensor: Sensor) -> int:
    """Return the id of a sensor's site.

    Raises:
        KeyError: `add_sensor_sites` has not been called with the sensor.
    """
    found: int = mujoco.mj_name2id(compiled.model, mujoco.mjtObj.mjOBJ_SITE, _site_name(sensor))
    if found < 0:
        raise KeyError(sensor.path)
    return found


def _site_name(sensor: Sensor) -> str:
    return f"{sensor.path}#sensor"


class Imu:
    """An Imu: orientation, angular velocity and specific force of a site, gravity included (REP 145)."""

    def __init__(self, compiled: CompiledModel, sensor: ImuSensor, noise: SensorNoise | None) -> None:
        self._model = compiled.model
        self._site = site_id(compiled, sensor)
        body = int(compiled.model.site_bodyid[self._site])
        # Some releases of MuJoCo have no acceleration, and so no gravity, for bodies that no joint moves.
        self._static = body if compiled.model.body_treeid[body] < 0 else -1
        deviations = (sensor.gyro_stddev, sensor.accel_stddev, sensor.orientation_stddev)
        self._noise = noise if any(deviations) else None
        self._deviation = np.repeat(deviations, 3)
        self._covariances = {
            f"{name}_covariance": np.diag(diagonal).reshape(9)
            for name, diagonal in (
                ("orientation", sensor.orientation_covariance),
                ("angular_velocity", sensor.angular_velocity_covariance),
                ("linear_acceleration", sensor.linear_acceleration_covariance),
            )
        }

    def arrays(self, data: Any, time_ns: int) -> Arrays:
        """Return the measurement of the state in `data`, whose accelerations (`cacc`) are current."""
        model, site, kind = self._model, self._site, mujoco.mjtObj.mjOBJ_SITE
        velocity, acceleration, w_first = np.empty(6), np.empty(6), np.empty(4)
        mujoco.mj_objectVelocity(model, data, kind, site, velocity, 1)
        # `cacc` is relative to free fall: it includes gravity.
        if self._static < 0:
            mujoco.mj_objectAcceleration(model, data, kind, site, acceleration, 1)
        else:
            acceleration[3:] = data.site_xmat[site].reshape(3, 3).T @ data.cacc[self._static, 3:]
        mujoco.mju_mat2Quat(w_first, data.site_xmat[site])
        orientation, rate, force = w_first[[1, 2, 3, 0]], velocity[:3], acceleration[3:]
        if self._noise is not None:
            error = self._deviation * self._noise.normal(9, time_ns)
            rate, force = rate + error[:3], force + error[3:6]
            orientation = quaternion_multiply(orientation, exponential(error[6:]))
        return {
            "orientation": orientation,
            "angular_velocity": rate,
            "linear_acceleration": force,
            **self._covariances,
        }


_WORLD: Final = 0
"""Id of MuJoCo's world body."""


class _Frame:
    """A frame fixed to a body, or to the world."""

    def __init__(self, compiled: CompiledModel, body: int, body_from_frame: Pose) -> None:
        self._body = _WORLD if body == WORLD_BODY else int(compiled.body_ids[body])
        matrix = to_matrix(pose_array(body_from_frame))
        self._rotation, self._translation = matrix[:3, :3], matrix[:3, 3]

    def origin(self, data: Any) -> FloatArray:
        """Return the origin in the world, m."""
        world_from_body = data.xmat[self._body].reshape(3, 3)
        result: FloatArray = data.xpos[self._body] + world_from_body @ self._translation
        return result

    def rotate(self, data: Any, vector: FloatArray) -> FloatArray:
        """Return a vector of the world frame in the axes of this frame."""
        world_from_body = data.xmat[self._body].reshape(3, 3)
        result: FloatArray = self._rotation.T @ (world_from_body.T @ vector)
        return result


class _Wrench:
    """A wrench in the axes of the header's frame, with noise."""

    def __init__(self, compiled: CompiledModel, sensor: WrenchSensor, noise: SensorNoise | None) -> None:
        self._axes = _Frame(compiled, sensor.frame_body, sensor.body_from_frame)
        deviations = (sensor.noise_stddev, sensor.torque_stddev)
        self._noise = noise if any(deviations) else None
        self._deviation = np.repeat(deviations, 3)

    def _arrays(self, data: Any, time_ns: int, force: FloatArray, torque: FloatArray) -> Arrays:
        wrench = np.concatenate((self._axes.rotate(data, force), self._axes.rotate(data, torque)))
        if self._noise is not None:
            wrench += self._deviation * self._noise.normal(6, time_ns)
        return {"wrench": wrench}


class JointWrench(_Wrench):
    """The wrench that body1 of a joint exerts on body0, the torque about the joint frame's origin in body1."""

    def __init__(self, compiled: CompiledModel, sensor: WrenchSensor, noise: SensorNoise | None) -> None:
        super().__init__(compiled, sensor, noise)
        scene, joint = compiled.scene, compiled.scene.joints[sensor.joint]
        child = next(index for index, body in enumerate(scene.bodies) if sensor.joint in body.joints)
        self._child = int(compiled.body_ids[child])
        self._root = int(compiled.model.body_rootid[self._child])
        # `cfrc_int` is exerted by the parent on the child: where the tree runs child first, by body1 on body0.
        self._sign = -1.0 if joint.body1 == child else 1.0
        self._anchor = _Frame(compiled, joint.body1, joint.body1_from_joint)

    def arrays(self, data: Any, time_ns: int) -> Arrays:
        """Return the wrench in the state in `data`, whose forces (`cfrc_int`) are current."""
        spatial = self._sign * data.cfrc_int[self._child]
        arm = data.subtree_com[self._root] - self._anchor.origin(data)
        return self._arrays(data, time_ns, spatial[3:], spatial[:3] + np.cross(arm, spatial[3:]))


class ContactReader:
    """The contacts of one body."""

    def __init__(self, compiled: CompiledModel, body: int) -> None:
        self._model = compiled.model
        self._is_own = compiled.model.geom_bodyid == compiled.body_ids[body]

    def forces(self, data: Any) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return the contacts of the body, in the world frame.

        Returns:
            Points (N, 3) m, forces (N, 3) N, torques (N, 3) N m about those points, normal forces (N,) N.
        """
        contact = data.contact
        ids, own = self._find(data)
        local = np.zeros((len(ids), 6))
        for row, number in enumerate(ids.tolist()):
            mujoco.mj_contactForce(self._model, data, number, local[row])
        # The rows of `frame` are the contact's axes; the first is the normal, from the first geom to the second. The
        # force acts on the second one.
        frames = contact.frame[ids].reshape(-1, 3, 3)
        sign = np.where(own[ids, 1], 1.0, -1.0)[:, None]
        force = sign * np.einsum("nij,ni->nj", frames, local[:, :3])
        torque = sign * np.einsum("nij,ni->nj", frames, local[:, 3:])
        return contact.pos[ids], force, torque, local[:, 0]

    def others(self, data: Any) -> list[int]:
        """Return the id of the geom that each contact is with, in the order of `forces`."""
        ids, own = self._find(data)
        pairs = data.contact.geom
        return [int(pairs[number][1 if own[number, 0] else 0]) for number in ids.tolist()]

    def _find(self, data: Any) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Return the ids of the body's contacts, and for all contacts which of the two geoms are its own."""
        pairs = data.contact.geom
        # Flexible bodies have no geom.
        own = self._is_own[pairs] & (pairs >= 0) if len(pairs) else np.zeros((0, 2), dtype=bool)
        return np.flatnonzero(own[:, 0] != own[:, 1]), own


class ContactWrench(_Wrench):
    """The sum of all contact wrenches of a body, the torque about the sensor's origin."""

    def __init__(self, compiled: CompiledModel, sensor: WrenchSensor, noise: SensorNoise | None) -> None:
        super().__init__(compiled, sensor, noise)
        self._contacts = ContactReader(compiled, sensor.body)
        self._site = site_id(compiled, sensor)

    def arrays(self, data: Any, time_ns: int) -> Arrays:
        """Return the wrench in the state in `data`, whose constraint forces are current."""
        points, forces, torques, _ = self._contacts.forces(data)
        about = torques + np.cross(points - data.site_xpos[self._site], forces)
        return self._arrays(data, time_ns, forces.sum(axis=0), about.sum(axis=0))


class ContactSwitch:
    """A Bool: the contact force on a body is above a threshold."""

    def __init__(self, compiled: CompiledModel, sensor: ContactSensor) -> None:
        self._threshold = sensor.threshold
        self._contacts = ContactReader(compiled, sensor.body)

    def arrays(self, data: Any, time_ns: int) -> Arrays:  # noqa: ARG002 - Instrument
        """Return the value for the state in `data`, whose constraint forces are current."""
        *_, normal = self._contacts.forces(data)
        return {"data": np.array(bool(normal.sum() > self._threshold))}


# WGS 84, NGA.STND.0036, section 3.4: the two parameters that define the ellipsoid, and the eccentricity.
_A: Final = 6_378_137.0
_F: Final = 1.0 / 298.257223563
_E2: Final = _F * (2.0 - _F)

# ICAO standard atmosphere (Doc 7488), troposphere.
_LAPSE: Final = 0.0065
_LAPSE_PER_M: Final = _LAPSE / 288.15
_TROPOPAUSE_M: Final = 11_000.0
_EXPONENT: Final = 5.25588


def to_ecef(latitude: float, longitude: float, altitude: float) -> FloatArray:
    """Convert degrees and m above the WGS 84 ellipsoid to an earth-centred position (3,), m."""
    phi, lam = radians(latitude), radians(longitude)
    normal = _A / sqrt(1.0 - _E2 * sin(phi) ** 2)
    flat = (normal + altitude) * cos(phi)
    return np.array([flat * cos(lam), flat * sin(lam), (normal * (1.0 - _E2) + altitude) * sin(phi)])


def to_geodetic(x: float, y: float, z: float) -> tuple[float, float, float]:
    """Convert an earth-centred position to latitude and longitude in degrees and m above the WGS 84 ellipsoid.

    Bowring's iteration on the reduced latitude: three rounds are exact to double precision wherever a robot may be.
    """
    flat = hypot(x, y)
    beta = atan2(z, (1.0 - _F) * flat)
    phi = beta
    for _ in range(3):
        phi = atan2(
            z + _E2 * (1.0 - _F) / (1.0 - _E2) * _A * sin(beta) ** 3, flat - _E2 * _A * cos(beta) ** 3
        )
        beta = atan2((1.0 - _F) * sin(phi), cos(phi))
    # This form has no pole: N = a / sqrt(1 - e^2 sin^2 phi).
    altitude = flat * cos(phi) + z * sin(phi) - _A * sqrt(1.0 - _E2 * sin(phi) ** 2)
    return degrees(phi), degrees(atan2(y, x)), altitude


class Gnss:
    """A NavSatFix: the site's position in the east-north-up frame of the origin, in WGS 84."""

    def __init__(self, compiled: CompiledModel, sensor: GnssSensor, noise: SensorNoise | None) -> None:
        self._site = site_id(compiled, sensor)
        phi, lam, turn = radians(sensor.latitude), radians(sensor.longitude), sensor.heading
        east = [-sin(lam), cos(lam), 0.0]
        north = [-sin(phi) * cos(lam), -sin(phi) * sin(lam), cos(phi)]
        up = [cos(phi) * cos(lam), cos(phi) * sin(lam), sin(phi)]
        self._ecef_from_enu = np.column_stack((east, north, up))
        self._enu_from_world = np.array(
            [[cos(turn), -sin(turn), 0.0], [sin(turn), cos(turn), 0.0], [0.0, 0.0, 1.0]]
        )
        self._origin = to_ecef(sensor.latitude, sensor.longitude, sensor.altitude)
        self._deviation = np.array([sensor.noise_stddev, sensor.noise_stddev, sensor.vertical_stddev])
        self._noise = noise if self._deviation.any() else None
        self._covariance = np.diag(sensor.position_covariance).reshape(9)

    def arrays(self, data: Any, time_ns: int) -> Arrays:
        """Return the fix of the state in `data`, whose poses are current."""
        enu = self._enu_from_world @ data.site_xpos[self._site]
        if self._noise is not None:
            enu = enu + self._deviation * self._noise.normal(3, time_ns)
        position = to_geodetic(*(self._origin + self._ecef_from_enu @ enu).tolist())
        return {"position": np.array(position), "position_covariance": self._covariance}


class Magnetometer:
    """A MagneticField: that of the earth, in the sensor's axes."""

    def __init__(
        self, compiled: CompiledModel, sensor: MagnetometerSensor, noise: SensorNoise | None
    ) -> None:
        self._site, self._field = site_id(compiled, sensor), np.array(sensor.field)
        self._deviation = sensor.noise_stddev
        self._noise = noise if sensor.noise_stddev > 0.0 else None
        self._covariance = (np.eye(3) * sensor.noise_stddev**2).reshape(9)

    def arrays(self, data: Any, time_ns: int) -> Arrays:
        """Return the field in the state in `data`, whose poses are current."""
        field = data.site_xmat[self._site].reshape(3, 3).T @ self._field
        if self._noise is not None:
            field = field + self._deviation * self._noise.normal(3, time_ns)
        return {"magnetic_field": field, "magnetic_field_covariance": self._covariance}


class Barometer:
    """A FluidPressure: that of the standard atmosphere at the sensor's altitude."""

    def __init__(self, compiled: CompiledModel, sensor: BarometerSensor, noise: SensorNoise | None) -> None:
        self._site, self._sensor = site_id(compiled, sensor), sensor
        self._noise = noise if sensor.noise_stddev > 0.0 else None
        self._variance = np.array(sensor.noise_stddev**2)

    def arrays(self, data: Any, time_ns: int) -> Arrays:
        """Return the pressure in the state in `data`, whose poses are current."""
        altitude = self._sensor.altitude + float(data.site_xpos[self._site, 2])
        pressure = self._sensor.sea_level_pressure * max(1.0 - _LAPSE_PER_M * altitude, 0.0) ** _EXPONENT
        if self._noise is not None:
            pressure += self._sensor.noise_stddev * float(self._noise.normal(1, time_ns)[0])
        return {"fluid_pressure": np.array(pressure), "variance": self._variance}


class Thermometer:
    """A Temperature: a fixed one, or that of the standard atmosphere at the sensor's altitude."""

    def __init__(self, compiled: CompiledModel, sensor: ThermometerSensor, noise: SensorNoise | None) -> None:
        self._site, self._sensor = site_id(compiled, sensor), sensor
        self._noise = noise if sensor.noise_stddev > 0.0 else None
        self._variance = np.array(sensor.noise_stddev**2)

    def arrays(self, data: Any, time_ns: int) -> Arrays:
        """Return the temperature in the state in `data`, whose poses are current."""
        temperature = self._sensor.temperature
        if temperature is None:
            altitude = self._sensor.altitude + float(data.site_xpos[self._site, 2])
            temperature = self._sensor.sea_level_temperature - _LAPSE * min(altitude, _TROPOPAUSE_M)
        if self._noise is not None:
            temperature += self._sensor.noise_stddev * float(self._noise.normal(1, time_ns)[0])
        return {"temperature": np.array(temperature), "variance": self._variance}
