"""Sites and noise of sensors: MuJoCo keeps the pose of each sensor's site current."""

from __future__ import annotations

import hashlib

import mujoco
import numpy as np

from usd_ros_bridge.backends.mujoco.compiled_model import CompiledModel
from usd_ros_bridge.backends.mujoco.spec_builder import SpecBuilder
from usd_ros_bridge.model.physics import PhysicsScene
from usd_ros_bridge.model.sensors import CameraSensor, Sensor
from usd_ros_bridge.spatial.transforms import FloatArray

_HIDDEN_SITE_GROUP = 5


def add_sensor_sites(builder: SpecBuilder, scene: PhysicsScene) -> None:
    """Add a site for every sensor of a scene, except cameras, before the model is compiled."""
    for sensor in scene.sensors:
        if isinstance(sensor, CameraSensor):
            continue
        x, y, z, w = sensor.body_from_sensor.rotation
        site = builder.body(sensor.body).add_site(
            name=_name(sensor), pos=list(sensor.body_from_sensor.translation), quat=[w, x, y, z]
        )
        site.group = _HIDDEN_SITE_GROUP


def site_id(compiled: CompiledModel, sensor: Sensor) -> int:
    """Return the id of a sensor's site.

    Raises:
        KeyError: `add_sensor_sites` has not been called with the sensor.
    """
    found: int = mujoco.mj_name2id(compiled.model, mujoco.mjtObj.mjOBJ_SITE, _name(sensor))
    if found < 0:
        raise KeyError(sensor.path)
    return found


def _name(sensor: Sensor) -> str:
    return f"{sensor.path}#sensor"


class SensorNoise:
    """Gaussian noise of one sensor, a function of the seed, the prim and the stamp alone.

    The same stamp has the same noise after a reset, at another rate or with other subscribers.
    """

    def __init__(self, seed: int, path: str) -> None:
        """Initialize.

        Args:
            seed: The bridge's seed.
            path: Prim path of the sensor.
        """
        digest = hashlib.blake2b(f"{seed}:{path}".encode(), digest_size=16).digest()
        self._philox = np.random.Philox(key=int.from_bytes(digest, "little"))
        self._generator = np.random.Generator(self._philox)
        self._state = self._philox.state

    def normal(self, count: int, time_ns: int) -> FloatArray:
        """Return `count` standard normal numbers of the measurement at `time_ns`."""
        counter = self._state["state"]["counter"]
        # The low word counts within a measurement, the third word is its time: no two measurements overlap.
        counter[:] = (0, 0, time_ns, 0)
        self._philox.state = self._state
        return self._generator.standard_normal(count)
