"""Kinematic bodies: they move by twists that were commanded, or as the stage's time samples say, and carry along.

MuJoCo moves its mocap bodies in jumps and takes them to stand still. How they really move is added to what contacts
and equalities know of the velocities there, so that friction drags what lies on them along.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import mujoco
import numpy as np

from usd_ros_bridge.backends.mujoco.compiled import Compiled, FloatArray, IndexArray
from usd_ros_bridge.backends.mujoco.poses import wxyz, xyzw
from usd_ros_bridge.backends.timeline import PoseTracks, StageRange
from usd_ros_bridge.model.transforms import (
    quaternion_conjugate,
    quaternion_multiply,
    twist_exponential,
)

_EQUALITY, _TENDON_LIMIT = mujoco.mjtConstraint.mjCNSTR_EQUALITY, mujoco.mjtConstraint.mjCNSTR_LIMIT_TENDON
_TYING: Final = frozenset({int(mujoco.mjtEq.mjEQ_CONNECT), int(mujoco.mjtEq.mjEQ_WELD)})
_ROWS: Final = np.arange(6)
_NEXT, _LAST = [1, 2, 0], [2, 0, 1]
_STILL: Final = np.zeros(6)
_NEVER: Final = float("nan")


class KinematicBodies:
    """The mocap bodies of a model and how they move. Time is MjData's own, seconds since the start.

    A body follows its time samples until it is commanded; a reset gives it back to them.

    Attributes:
        moving: Whether any body moves: `advance` is to be called before every step.
    """

    def __init__(self, compiled: Compiled, data: Any, played: StageRange) -> None:
        """Looks up what may move.

        Args:
            compiled: The compiled model.
            data: MjData of the simulation.
            played: Which part of the stage's time is played, and how.
        """
        model, scene = compiled.model, compiled.scene
        self._model, self._data, self._played = model, data, played
        self._compiled = compiled
        found = [track for track in scene.tracks if compiled.mocap_ids[track.row] >= 0]
        self._tracks = PoseTracks([track.time for track in found], [track.world_from_body for track in found])
        self._tracked: IndexArray = np.array([compiled.mocap_ids[t.row] for t in found], dtype=np.intp)
        self._follows = np.ones(len(found), dtype=bool)
        self._twists: dict[int, FloatArray] = {}
        self._arcs: dict[int, FloatArray] = {}
        # One more for what no mocap body carries, which never moves.
        self._velocity = np.zeros((model.nmocap + 1, 6))
        self._moves = np.zeros(model.nmocap + 1, dtype=bool)
        self._seconds = _NEVER
        self._carrier: IndexArray = np.asarray(model.body_mocapid, dtype=np.intp)[model.body_rootid]
        self._carrier_of_geom = self._carrier[model.geom_bodyid]
        self._ties = _Ties(model, self._carrier)
        self._body_of_mocap = np.flatnonzero(np.asarray(model.body_mocapid) >= 0)
        self.moving = False
        self.reset()

    # --- What moves them ---------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Forgets all commands and puts bodies with time samples where these start."""
        self._twists.clear()
        self._follows[:] = True
        self._update_moving()
        self._follow(float(self._data.time))

    def set_twist(self, body: int, twist: FloatArray) -> bool:
        """Moves a body by a twist in its own frame (6,), m/s and rad/s, from here on; zero stops it.

        Returns:
            Whether that is something else than what it does.
        """
        mocap = int(self._compiled.mocap_ids[body])
        if np.array_equal(twist, self._twists.get(mocap, _STILL)) and not self._follows_samples(mocap):
            return False
        self.release(body)
        if twist.any():
            self._twists[mocap] = twist.copy()
            # A constant twist makes a perfect arc.
            arc = twist_exponential(twist * self._model.opt.timestep)
            self._arcs[mocap] = np.concatenate((arc[:3], wxyz(arc[3:])))
        else:
            self._twists.pop(mocap, None)
        self._update_moving()
        return True

    def release(self, body: int) -> None:
        """Ends that a body follows its time samples: it was commanded."""
        self._follows[self._tracked == self._compiled.mocap_ids[body]] = False
        self._update_moving()

    def take_over(self, other: KinematicBodies) -> None:
        """Takes the commands of the bodies that both have."""
        known = {body.path: index for index, body in enumerate(self._compiled.scene.bodies)}
        mocaps = {int(mocap): body for body, mocap in enumerate(other._compiled.mocap_ids) if mocap >= 0}
        free = other._tracked[~other._follows].tolist()
        for mocap in {*free, *other._twists}:
            index = known.get(other._compiled.scene.bodies[mocaps[mocap]].path, -1)
            if index >= 0 and self._compiled.mocap_ids[index] >= 0:
                self.set_twist(index, other._twists.get(mocap, _STILL))

    def advance(self) -> None:
        """Puts bodies where they are at the end of the step that follows; that step computes the poses."""
        data, step = self._data, self._model.opt.timestep
        self._follow(float(data.time) + step)
        # MuJoCo's own functions: numpy takes ten times as long for a few numbers.
        for mocap in self._twists:
            arc, moved, turned = self._arcs[mocap], np.empty(3), np.empty(4)
            mujoco.mju_rotVecQuat(moved, arc[:3], data.mocap_quat[mocap])
            mujoco.mju_mulQuat(turned, data.mocap_quat[mocap], arc[3:])
            mujoco.mju_normalize4(turned)
            data.mocap_pos[mocap] += moved
            data.mocap_quat[mocap] = turned

    # --- What they carry ---------------------------------------------------------------------------------------

    def carry(self) -> None:
        """Adds the velocities of the bodies to the constraints of the current state, after `mj_step1`."""
        if not self.moving:
            return
        self._update_velocity()
        data = self._data
        if data.ncon:
            self._carry_contacts(data.contact)
        if self._ties:
            self._ties.carry(data, self.velocity_at, self._add)

    def velocity_at(self, carrier: int, point: FloatArray) -> FloatArray:
        """Returns linear then angular velocity (6,) that a mocap body, -1 for none, gives a point of the world (3,)."""
        velocity: FloatArray = self._velocity[carrier].copy()
        if carrier >= 0:
            velocity[:3] += np.cross(velocity[3:], point - self._data.mocap_pos[carrier])
        return velocity

    def body_velocity(self, body: int) -> FloatArray:
        """Returns what the motion of a mocap body adds to the twist (6,) of MuJoCo's body, in the world frame."""
        return self.velocity_at(int(self._carrier[body]), self._data.xpos[body])

    def show(self, ids: IndexArray, rows: IndexArray, twists: FloatArray) -> None:
        """Adds the motion, of which MuJoCo knows nothing, to the twists of bodies.

        Args:
            ids: (N,) MuJoCo's bodies.
            rows: (N,) their rows in `twists`.
            twists: (B, 6) linear then angular velocities of origins in the world frame.
        """
        carriers = self._carrier[ids]
        found = np.flatnonzero(self._moves[carriers])
        if not found.size:
            return
        carriers, rows = carriers[found], rows[found]
        velocity = self._velocity[carriers]
        lever = self._data.xpos[ids[found]] - self._data.mocap_pos[carriers]
        twists[rows, :3] += velocity[:, :3] + np.cross(velocity[:, 3:], lever)
        twists[rows, 3:] += velocity[:, 3:]

    # --- Own ---------------------------------------------------------------------------------------------------

    def _update_moving(self) -> None:
        self.moving = bool(self._twists) or bool(self._follows.any())
        self._velocity[:] = 0.0
        self._moves[:] = False
        self._seconds = _NEVER

    def _follows_samples(self, mocap: int) -> bool:
        return bool(self._follows[self._tracked == mocap].any())

    def _follow(self, seconds: float) -> None:
        """Puts bodies where their time samples have them at a time."""
        if not self._follows.any():
            return
        poses = self._sample(seconds)
        mocaps = self._tracked[self._follows]
        self._data.mocap_pos[mocaps] = poses[:, :3]
        self._data.mocap_quat[mocaps] = wxyz(poses[:, 3:])

    def _sample(self, seconds: float) -> FloatArray:
        """Returns the poses (F, 7) of the bodies that follow their samples, and notes how they move."""
        stage_seconds, goes_on = self._played.stage_seconds(seconds)
        poses, twists = self._tracks.at(stage_seconds)
        rate = self._played.rate if goes_on else 0.0
        self._velocity[self._tracked[self._follows]] = rate * twists[self._follows]
        self._seconds = seconds
        return poses[self._follows]

    def _update_velocity(self) -> None:
        seconds = float(self._data.time)
        if seconds != self._seconds and self._follows.any():
            self._sample(seconds)
        for mocap, twist in self._twists.items():
            velocity, turn = self._velocity[mocap], self._data.mocap_quat[mocap]
            mujoco.mju_rotVecQuat(velocity[:3], twist[:3], turn)
            mujoco.mju_rotVecQuat(velocity[3:], twist[3:], turn)
        np.any(self._velocity, axis=1, out=self._moves)

    def _carry_contacts(self, contact: Any) -> None:
        carriers = self._carrier_of_geom[contact.geom]
        found = np.flatnonzero(self._moves[carriers].any(axis=1) & (contact.efc_address >= 0))
        if not found.size:
            return
        points, carriers = contact.pos[found], carriers[found]
        relative = np.zeros((len(found), 2, 3))
        for side, sign in ((1, 1.0), (0, -1.0)):
            if self._moves[carriers[:, side]].any():
                relative += sign * self._at_points(carriers[:, side], points)
        frames = contact.frame[found].reshape(-1, 3, 3)
        # Rows of a contact: normal, two tangents, then turns about the same three.
        speeds = (relative @ frames.transpose(0, 2, 1)).reshape(-1, 6)
        first, dims = contact.efc_address[found], contact.dim[found]
        if self._model.opt.cone == mujoco.mjtCone.mjCONE_ELLIPTIC:
            used = dims[:, None] > _ROWS
            self._add((first[:, None] + _ROWS)[used], speeds[used])
            return
        for start, dim, speed, friction in zip(first, dims, speeds, contact.friction[found], strict=True):
            if dim == 1:
                self._add(np.array([start]), speed[:1])
                continue
            # Two rows for each direction of friction: the edges of the pyramid.
            sideways = friction[: dim - 1] * speed[1:dim]
            edges = np.stack((speed[0] + sideways, speed[0] - sideways), axis=1).ravel()
            self._add(start + np.arange(edges.size), edges)

    def _at_points(self, carriers: IndexArray, points: FloatArray) -> FloatArray:
        """Returns linear and angular velocities (N, 2, 3) that mocap bodies, -1 for none, give points (N, 3)."""
        velocity = self._velocity[carriers].reshape(-1, 2, 3)
        turn, lever = velocity[:, 1], points - self._data.xpos[self._body_of_mocap[carriers]]
        # np.cross takes five times as long.
        velocity[:, 0] += turn[:, _NEXT] * lever[:, _LAST] - turn[:, _LAST] * lever[:, _NEXT]
        return velocity

    def _add(self, rows: IndexArray, speeds: FloatArray) -> None:
        """Adds to the velocities of constraints, and to the accelerations that they ask for because of them."""
        data = self._data
        data.efc_vel[rows] += speeds
        data.efc_aref[rows] -= data.efc_KBIP[rows, 1] * speeds


_Velocity = Callable[[int, FloatArray], FloatArray]
_Add = Callable[[IndexArray, FloatArray], None]


class _Ties:
    """Equalities and tendons between a mocap body's tree and something else."""

    def __init__(self, model: Any, carrier: IndexArray) -> None:
        self._model, self._carrier = model, carrier
        self._equalities = [index for index in range(model.neq) if self._is_tied(*self._ends(index))]
        self._tendons = [
            index for index in range(model.ntendon) if self._is_tied(*self._sites(index), site=True)
        ]

    def __bool__(self) -> bool:
        return bool(self._equalities or self._tendons)

    def carry(self, data: Any, velocity_at: _Velocity, add: _Add) -> None:
        """Adds what the motion of the mocap bodies is to them."""
        for index in self._equalities:
            rows = np.flatnonzero((data.efc_type == _EQUALITY) & (data.efc_id == index))
            if rows.size:
                add(rows, self._speeds(data, index, velocity_at)[: rows.size])
        for index in self._tendons:
            self._carry_tendon(data, index, velocity_at, add)

    def _is_tied(self, first: int, second: int, *, site: bool = False) -> bool:
        if first < 0 or second < 0:
            return False
        bodies = [int(self._model.site_bodyid[each]) if site else each for each in (first, second)]
        one, other = (int(self._carrier[body]) for body in bodies)
        return one != other

    def _ends(self, index: int) -> tuple[int, int]:
        """Returns the bodies that an equality ties together, -1 where it ties something else."""
        model = self._model
        if int(model.eq_type[index]) not in _TYING:
            return -1, -1
        ends = int(model.eq_obj1id[index]), int(model.eq_obj2id[index])
        if model.eq_objtype[index] == mujoco.mjtObj.mjOBJ_SITE:
            return int(model.site_bodyid[ends[0]]), int(model.site_bodyid[ends[1]])
        return ends

    def _sites(self, index: int) -> tuple[int, int]:
        """Returns the two sites of a tendon, -1 where it is of another kind."""
        model = self._model
        start, count = int(model.tendon_adr[index]), int(model.tendon_num[index])
        if count != 2 or any(model.wrap_type[start : start + 2] != mujoco.mjtWrap.mjWRAP_SITE):
            return -1, -1
        return int(model.wrap_objid[start]), int(model.wrap_objid[start + 1])

    def _speeds(self, data: Any, index: int, velocity_at: _Velocity) -> FloatArray:
        """Returns the rates (6,) of an equality's residuals: points, then the vector of the turn between the two."""
        model = self._model
        bodies, points, turns = self._ends(index), [], []
        for side, body in enumerate(bodies):
            if model.eq_objtype[index] == mujoco.mjtObj.mjOBJ_SITE:
                site = int((model.eq_obj1id, model.eq_obj2id)[side][index])
                points.append(data.site_xpos[site])
                turns.append(quaternion_multiply(xyzw(data.xquat[body]), xyzw(model.site_quat[site])))
                continue
            # A connect has the anchor in the first body first, a weld that in the second.
            weld = model.eq_type[index] == mujoco.mjtEq.mjEQ_WELD
            anchor = 3 * (1 - side) if weld else 3 * side
            points.append(
                data.xpos[body] + data.xmat[body].reshape(3, 3) @ model.eq_data[index, anchor : anchor + 3]
            )
            turn = xyzw(data.xquat[body])
            turns.append(turn if side else quaternion_multiply(turn, xyzw(model.eq_data[index, 6:10])))
        one, other = (
            velocity_at(int(self._carrier[body]), point) for body, point in zip(bodies, points, strict=True)
        )
        spin = np.append(0.5 * (one[3:] - other[3:]), 0.0)
        turned = quaternion_multiply(quaternion_multiply(quaternion_conjugate(turns[1]), spin), turns[0])
        return np.concatenate((one[:3] - other[:3], model.eq_data[index, 10] * turned[:3]))

    def _carry_tendon(self, data: Any, index: int, velocity_at: _Velocity, add: _Add) -> None:
        model, sites = self._model, self._sites(index)
        ends = [data.site_xpos[site] for site in sites]
        length = float(data.ten_length[index])
        one, other = (
            velocity_at(int(self._carrier[model.site_bodyid[site]]), end)
            for site, end in zip(sites, ends, strict=True)
        )
        rate = float((ends[1] - ends[0]) @ (other[:3] - one[:3])) / max(length, 1e-9)
        limits = np.flatnonzero((data.efc_type == _TENDON_LIMIT) & (data.efc_id == index))
        for row in limits.tolist():
            # The residual of a limit is how far it is to it: it shrinks towards the upper one as the length grows.
            upper = float(model.tendon_range[index, 1])
            is_upper = abs(float(data.efc_pos[row]) - (upper - length)) < 1e-9
            add(np.array([row]), np.array([-rate if is_upper else rate]))
        for equality in np.flatnonzero(
            (model.eq_type == mujoco.mjtEq.mjEQ_TENDON) & (model.eq_obj1id == index)
        ).tolist():
            rows = np.flatnonzero((data.efc_type == _EQUALITY) & (data.efc_id == equality))
            add(rows, np.full(rows.size, rate))
