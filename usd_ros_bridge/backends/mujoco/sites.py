"""Where sensors are in the model: a site each, whose pose MuJoCo keeps current."""

from __future__ import annotations

import mujoco

from usd_ros_bridge.backends.mujoco.built import Built
from usd_ros_bridge.backends.mujoco.compiled import Compiled
from usd_ros_bridge.model.physics import PhysicsScene
from usd_ros_bridge.model.sensors import CameraSensor, Sensor

_HIDDEN_SITE_GROUP = 5


def equip(built: Built, scene: PhysicsScene) -> None:
    """Adds a site for every sensor of a scene but its cameras, before the model is compiled."""
    for sensor in scene.sensors:
        if isinstance(sensor, CameraSensor):
            continue
        x, y, z, w = sensor.body_from_sensor.rotation
        site = built.body(sensor.body).add_site(
            name=_name(sensor), pos=list(sensor.body_from_sensor.translation), quat=[w, x, y, z]
        )
        site.group = _HIDDEN_SITE_GROUP


def site_id(compiled: Compiled, sensor: Sensor) -> int:
    """Returns the id of a sensor's site.

    Raises:
        KeyError: `equip` has not been called with the sensor.
    """
    found: int = mujoco.mj_name2id(compiled.model, mujoco.mjtObj.mjOBJ_SITE, _name(sensor))
    if found < 0:
        raise KeyError(sensor.path)
    return found


def _name(sensor: Sensor) -> str:
    return f"{sensor.path}#sensor"
