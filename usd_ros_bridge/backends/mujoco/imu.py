"""Imu: angular velocity and specific force of a site, gravity included (REP 145), and its orientation."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.backends.mujoco.beside import Arrays
from usd_ros_bridge.backends.mujoco.compiled import Compiled
from usd_ros_bridge.backends.mujoco.noise import Noise
from usd_ros_bridge.backends.mujoco.sites import site_id
from usd_ros_bridge.model.sensors import ImuSensor
from usd_ros_bridge.model.transforms import exponential, quaternion_multiply

FloatArray = NDArray[np.float64]


class Imu:
    """An Imu."""

    def __init__(self, compiled: Compiled, sensor: ImuSensor, noise: Noise | None) -> None:
        """Looks up where the sensor is."""
        self._model = compiled.model
        self._site = site_id(compiled, sensor)
        body = int(compiled.model.site_bodyid[self._site])
        # Some releases of MuJoCo know no acceleration of what no joint moves, and so no gravity.
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
        """Returns the measurement of the state in `data`, whose accelerations (`cacc`) are current."""
        model, site, kind = self._model, self._site, mujoco.mjtObj.mjOBJ_SITE
        velocity, acceleration, w_first = np.empty(6), np.empty(6), np.empty(4)
        mujoco.mj_objectVelocity(model, data, kind, site, velocity, 1)
        # `cacc` holds accelerations against free fall: gravity is in them already.
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
