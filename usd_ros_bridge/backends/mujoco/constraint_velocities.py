"""Velocities that MuJoCo does not know, added to its constraints between the two halves of a step.

MuJoCo computes how fast a constraint is violated from the velocities of joints alone. Bodies that are moved from
outside, and surfaces that move while their body stays, are added here, so that friction moves what lies on them.
"""

from __future__ import annotations

from typing import Any, Final

import mujoco
import numpy as np

from usd_ros_bridge.spatial.transforms import FloatArray, IndexArray

_ROWS: Final = np.arange(6)
_NEXT, _LAST = [1, 2, 0], [2, 0, 1]


def cross(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return the products of vectors (..., 3); `np.cross` takes five times as long for few."""
    product: FloatArray = left[..., _NEXT] * right[..., _LAST] - left[..., _LAST] * right[..., _NEXT]
    return product


def add_velocities(data: Any, rows: IndexArray, speeds: FloatArray) -> None:
    """Add to the velocities of constraints, and to the reference accelerations that depend on them.

    Args:
        data: MjData after `mj_step1`.
        rows: (K,) rows of constraints, none twice.
        speeds: (K,) m/s or rad/s.
    """
    data.efc_vel[rows] += speeds
    data.efc_aref[rows] -= data.efc_KBIP[rows, 1] * speeds


def add_contact_velocities(model: Any, data: Any, contacts: IndexArray, relative: FloatArray) -> None:
    """Add to the velocities of contacts.

    Args:
        model: MjModel.
        data: MjData after `mj_step1`.
        contacts: (K,) contacts that have constraints.
        relative: (K, 2, 3) linear and angular velocity of the second geom at the contact less that of the first, m/s
            and rad/s in the world frame.
    """
    contact = data.contact
    frames = contact.frame[contacts].reshape(-1, 3, 3)
    # Rows of a contact: normal, two tangents, then turns about the same three.
    speeds = (relative @ frames.transpose(0, 2, 1)).reshape(-1, 6)
    first, dims = contact.efc_address[contacts], contact.dim[contacts]
    if model.opt.cone == mujoco.mjtCone.mjCONE_ELLIPTIC:
        used = dims[:, None] > _ROWS
        add_velocities(data, (first[:, None] + _ROWS)[used], speeds[used])
        return
    for start, dim, speed, friction in zip(first, dims, speeds, contact.friction[contacts], strict=True):
        if dim == 1:
            add_velocities(data, np.array([start]), speed[:1])
            continue
        # Two rows for each direction of friction: the edges of the pyramid.
        sideways = friction[: dim - 1] * speed[1:dim]
        edges = np.stack((speed[0] + sideways, speed[0] - sideways), axis=1).ravel()
        add_velocities(data, start + np.arange(edges.size), edges)
