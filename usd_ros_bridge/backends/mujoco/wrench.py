"""Forces: what a joint transmits, what touches a body, and whether anything does."""

from __future__ import annotations

from typing import Any, Final

import mujoco
import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.backends.mujoco.beside import Arrays
from usd_ros_bridge.backends.mujoco.compiled import Compiled
from usd_ros_bridge.backends.mujoco.noise import Noise
from usd_ros_bridge.backends.mujoco.sites import site_id
from usd_ros_bridge.model.physics import WORLD_BODY
from usd_ros_bridge.model.plan import Pose
from usd_ros_bridge.model.sensors import ContactSensor, WrenchSensor

FloatArray = NDArray[np.float64]

_WORLD: Final = 0
"""Id of MuJoCo's world body."""


class _Frame:
    """A frame that a body, or the world, carries."""

    def __init__(self, compiled: Compiled, body: int, body_from_frame: Pose) -> None:
        self._body = _WORLD if body == WORLD_BODY else int(compiled.body_ids[body])
        x, y, z, w = body_from_frame.rotation
        matrix = np.empty(9)
        mujoco.mju_quat2Mat(matrix, np.array([w, x, y, z]))
        self._rotation = matrix.reshape(3, 3)
        self._translation = np.array(body_from_frame.translation)

    def origin(self, data: Any) -> FloatArray:
        """Returns the origin in the world, m."""
        world_from_body = data.xmat[self._body].reshape(3, 3)
        result: FloatArray = data.xpos[self._body] + world_from_body @ self._translation
        return result

    def turn(self, data: Any, vector: FloatArray) -> FloatArray:
        """Returns a vector of the world in the frame's axes."""
        world_from_body = data.xmat[self._body].reshape(3, 3)
        result: FloatArray = self._rotation.T @ (world_from_body.T @ vector)
        return result


class _Wrench:
    """What both wrenches share: the header's frame, noise and the sample."""

    def __init__(self, compiled: Compiled, sensor: WrenchSensor, noise: Noise | None) -> None:
        self._axes = _Frame(compiled, sensor.frame_body, sensor.body_from_frame)
        deviations = (sensor.noise_stddev, sensor.torque_stddev)
        self._noise = noise if any(deviations) else None
        self._deviation = np.repeat(deviations, 3)

    def _shown(self, data: Any, time_ns: int, force: FloatArray, torque: FloatArray) -> Arrays:
        wrench = np.concatenate((self._axes.turn(data, force), self._axes.turn(data, torque)))
        if self._noise is not None:
            wrench += self._deviation * self._noise.normal(6, time_ns)
        return {"wrench": wrench}


class JointWrench(_Wrench):
    """What body1 of a joint exerts on body0, the torque about the joint frame's origin in body1."""

    def __init__(self, compiled: Compiled, sensor: WrenchSensor, noise: Noise | None) -> None:
        """Looks up the body that hangs by the joint."""
        super().__init__(compiled, sensor, noise)
        scene, joint = compiled.scene, compiled.scene.joints[sensor.joint]
        child = next(index for index, body in enumerate(scene.bodies) if sensor.joint in body.joints)
        self._child = int(compiled.body_ids[child])
        self._root = int(compiled.model.body_rootid[self._child])
        # `cfrc_int` is what the parent exerts on the child; where the tree runs child first, that is body1 on body0.
        self._sign = -1.0 if joint.body1 == child else 1.0
        self._anchor = _Frame(compiled, joint.body1, joint.body1_from_joint)

    def arrays(self, data: Any, time_ns: int) -> Arrays:
        """Returns the wrench in the state in `data`, whose forces (`cfrc_int`) are current."""
        spatial = self._sign * data.cfrc_int[self._child]
        arm = data.subtree_com[self._root] - self._anchor.origin(data)
        return self._shown(data, time_ns, spatial[3:], spatial[:3] + np.cross(arm, spatial[3:]))


class Contacts:
    """The contacts of one body."""

    def __init__(self, compiled: Compiled, body: int) -> None:
        """Looks up the body's geoms."""
        self._model = compiled.model
        self._is_own = compiled.model.geom_bodyid == compiled.body_ids[body]

    def forces(self, data: Any) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Returns where the contacts of the body are (N, 3) m, and what is exerted on it there, in the world.

        Returns:
            Points (N, 3) m, forces (N, 3) N, torques (N, 3) N m about those points, normal forces (N,) N.
        """
        contact = data.contact
        pairs = contact.geom
        # Flexible bodies have no geom.
        own = self._is_own[pairs] & (pairs >= 0) if len(pairs) else np.zeros((0, 2), dtype=bool)
        ids = np.flatnonzero(own[:, 0] != own[:, 1])
        local = np.zeros((len(ids), 6))
        for row, number in enumerate(ids.tolist()):
            mujoco.mj_contactForce(self._model, data, number, local[row])
        # The rows of `frame` are the contact's axes; the first is the normal, from the first geom to the second,
        # and the force is what the second one gets.
        frames = contact.frame[ids].reshape(-1, 3, 3)
        sign = np.where(own[ids, 1], 1.0, -1.0)[:, None]
        force = sign * np.einsum("nij,ni->nj", frames, local[:, :3])
        torque = sign * np.einsum("nij,ni->nj", frames, local[:, 3:])
        return contact.pos[ids], force, torque, local[:, 0]


class ContactWrench(_Wrench):
    """All that is exerted on a body by contacts, the torque about the sensor's origin."""

    def __init__(self, compiled: Compiled, sensor: WrenchSensor, noise: Noise | None) -> None:
        """Looks up the body and where the sensor is."""
        super().__init__(compiled, sensor, noise)
        self._contacts = Contacts(compiled, sensor.body)
        self._site = site_id(compiled, sensor)

    def arrays(self, data: Any, time_ns: int) -> Arrays:
        """Returns the wrench in the state in `data`, whose constraint forces are current."""
        points, forces, torques, _ = self._contacts.forces(data)
        about = torques + np.cross(points - data.site_xpos[self._site], forces)
        return self._shown(data, time_ns, forces.sum(axis=0), about.sum(axis=0))


class Touch:
    """Whether anything touches a body: a Bool."""

    def __init__(self, compiled: Compiled, sensor: ContactSensor) -> None:
        """Looks up the body."""
        self._threshold = sensor.threshold
        self._contacts = Contacts(compiled, sensor.body)

    def arrays(self, data: Any, time_ns: int) -> Arrays:  # noqa: ARG002 - Instrument
        """Returns the answer in the state in `data`, whose constraint forces are current."""
        *_, normal = self._contacts.forces(data)
        return {"data": np.array(bool(normal.sum() > self._threshold))}
