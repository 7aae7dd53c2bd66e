"""Sensors of the earth: GNSS receiver, magnetometer, barometer and thermometer."""

from __future__ import annotations

from math import atan2, cos, degrees, hypot, radians, sin, sqrt
from typing import Any, Final

import numpy as np

from usd_ros_bridge.backends.mujoco.async_sensors import Arrays
from usd_ros_bridge.backends.mujoco.compiled_model import CompiledModel
from usd_ros_bridge.backends.mujoco.sensor_site import SensorNoise, site_id
from usd_ros_bridge.model.sensors import BarometerSensor, GnssSensor, MagnetometerSensor, ThermometerSensor
from usd_ros_bridge.spatial.transforms import FloatArray

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
