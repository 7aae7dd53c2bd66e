"""The scene: cameras as CameraInfo has them, and time samples as SI tracks."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.diagnostics import DiagnosticCollector
from usd_ros_bridge.model.plan import DofPlan, Scene
from usd_ros_bridge.model.records import CameraRecord, fallback
from usd_ros_bridge.model.sensors import CameraModel
from usd_ros_bridge.model.stage import StageRecords
from usd_ros_bridge.model.state import JointTrack, PoseTrack
from usd_ros_bridge.planning.kinematics.joint_graph import TreeJoint
from usd_ros_bridge.planning.kinematics.kinematic_model import KinematicModel
from usd_ros_bridge.planning.kinematics.solver_attributes import motion_unit, position_attributes
from usd_ros_bridge.planning.stage_index import StageIndex, Units, to_world
from usd_ros_bridge.spatial.transforms import interpolate_poses, relative

MAX_PIXELS = 8192


def plan_scene(
    records: StageRecords,
    cameras: Collection[str],
    kinematics: KinematicModel,
    body_rows: Mapping[str, int],
    solvers: Sequence[str],
    index: StageIndex,
    findings: DiagnosticCollector,
) -> Scene:
    """Return cameras that interfaces refer to, and tracks of bodies and degrees of freedom that have rows."""
    units = index.units
    models, stretched = [], []
    for record in records.cameras:
        if record.path in cameras:
            model = camera_model(record, units, findings)
            if model is not None:
                models.append(model)
                if _is_stretched(record, model):
                    stretched.append((record, model))
    _report_apertures(stretched, findings)

    def seconds(time_code: float | None) -> float | None:
        return time_code * units.seconds if time_code is not None and math.isfinite(time_code) else None

    return Scene(
        cameras=tuple(models),
        pose_tracks=_carried(pose_tracks(records, body_rows, units, findings), body_rows, index),
        joint_tracks=_joint_tracks(records, kinematics, solvers, units, findings),
        start=seconds(records.metrics.start_time_code),
        end=seconds(records.metrics.end_time_code),
    )


def camera_model(record: CameraRecord, units: Units, findings: DiagnosticCollector) -> CameraModel | None:
    """Return the pinhole model of a camera, None where it has none.

    Pixels are square: the horizontal aperture fills the width, as Isaac Sim's renderer has it, and the vertical
    aperture follows from the resolution. The offsets of the apertures move the principal point (UsdGeomCamera).
    """
    if fallback(record, "projection") != "perspective":
        findings.warning(
            "2.8.camera",
            record.path,
            f"the projection {quoted(record.projection)} has no CameraInfo",
            "use a perspective camera",
            attribute="projection",
        )
        return None
    focal, horizontal, vertical = (
        fallback(record, name) for name in ("focal_length", "horizontal_aperture", "vertical_aperture")
    )
    if not all(math.isfinite(value) and value > 0.0 for value in (focal, horizontal, vertical)):
        findings.error(
            "2.8.camera",
            record.path,
            f"focal length {quoted(focal)} and apertures {quoted(horizontal)}, {quoted(vertical)} are no lens",
            "author positive numbers",
            attribute="focalLength",
        )
        return None
    width, height = _resolution(record, findings)
    offset_x, offset_y = (
        fallback(record, "horizontal_aperture_offset"),
        fallback(record, "vertical_aperture_offset"),
    )
    offset_x, offset_y = (value if math.isfinite(value) else 0.0 for value in (offset_x, offset_y))
    near, far = fallback(record, "clipping_range")
    pixel = horizontal / width
    return CameraModel(
        path=record.path,
        width=width,
        height=height,
        fx=focal / pixel,
        fy=focal / pixel,
        cx=0.5 * (width - 1) - offset_x / pixel,
        cy=0.5 * (height - 1) + offset_y / pixel,
        near=near * units.meters,
        far=far * units.meters,
    )


SAME_SHAPE = 0.01
"""How much the shapes of aperture and resolution may differ for pixels to be square."""


def _is_stretched(record: CameraRecord, model: CameraModel) -> bool:
    """Return whether a camera authors a vertical aperture that does not fit square pixels."""
    if record.vertical_aperture is None:
        return False
    shape = fallback(record, "horizontal_aperture") / record.vertical_aperture
    return bool(abs(shape * model.height / model.width - 1.0) > SAME_SHAPE)


def _report_apertures(
    cameras: Sequence[tuple[CameraRecord, CameraModel]], findings: DiagnosticCollector
) -> None:
    """Report, once for all, cameras with a vertical aperture that is not used."""
    if not cameras:
        return
    record, model = cameras[0]
    horizontal = fallback(record, "horizontal_aperture")
    more = f"; so it is with {len(cameras) - 1} more of the cameras" if len(cameras) > 1 else ""
    findings.info(
        "2.8.camera",
        record.path,
        f"the apertures {horizontal:g} x {record.vertical_aperture:g} have another shape than {model.width} x "
        f"{model.height} pixels; pixels are square, from the horizontal aperture, as in Isaac Sim{more}",
        f"author verticalAperture = {horizontal * model.height / model.width:.6g}, or a resolution of its shape",
        attribute="verticalAperture",
    )


def _resolution(record: CameraRecord, findings: DiagnosticCollector) -> tuple[int, int]:
    width, height = fallback(record, "resolution")
    if 1 <= width <= MAX_PIXELS and 1 <= height <= MAX_PIXELS:
        return int(width), int(height)
    findings.error(
        "2.8.camera",
        record.path,
        f"the resolution {quoted((width, height))} is not in 1 to {MAX_PIXELS}; 640x480 is used",
        "author int2 usd_ros_bridge:camera:resolution",
        attribute="usd_ros_bridge:camera:resolution",
    )
    return 640, 480


def pose_tracks(
    records: StageRecords, body_rows: Mapping[str, int], units: Units, findings: DiagnosticCollector
) -> tuple[PoseTrack, ...]:
    """Return the time samples of prims that have rows."""
    tracks = []
    for record in records.pose_tracks:
        row = body_rows.get(record.path)
        if row is None or not len(record.time_codes):
            continue
        poses, _ = to_world(np.asarray(record.world_from_prim, dtype=np.float64), units)
        usable = np.isfinite(poses).all(axis=-1) & np.isfinite(record.time_codes)
        if not usable.all():
            _report_samples(record.path, int((~usable).sum()), findings)
        if usable.any():
            tracks.append(
                PoseTrack(
                    row=row, time=record.time_codes[usable] * units.seconds, world_from_body=poses[usable]
                )
            )
    return tuple(tracks)


def _carried(
    tracks: Sequence[PoseTrack], body_rows: Mapping[str, int], index: StageIndex
) -> tuple[PoseTrack, ...]:
    """Return tracks with what carries them: a prim that moves within a body moves with it."""
    paths = {row: path for path, row in body_rows.items()}
    by_row = {track.row: track for track in tracks}
    found = []
    for track in tracks:
        above = index.carrier_at.above(paths[track.row])
        carrier = body_rows.get(above, -1)
        # A body moves by itself, wherever its prim is.
        if carrier < 0 or paths[track.row] in index.bodies:
            found.append(track)
            continue
        moved = by_row.get(carrier)
        if moved is None:
            row = index.poses.find_rows([above])
            world_from_carrier = np.broadcast_to(
                index.poses.world_from_prim[row], track.world_from_body.shape
            )
        else:
            world_from_carrier = interpolate_poses(moved.time, moved.world_from_body, track.time)
        found.append(
            replace(
                track, carrier=carrier, carrier_from_body=relative(world_from_carrier, track.world_from_body)
            )
        )
    return tuple(found)


def _joint_tracks(
    records: StageRecords,
    kinematics: KinematicModel,
    solvers: Sequence[str],
    units: Units,
    findings: DiagnosticCollector,
) -> tuple[JointTrack, ...]:
    wanted: dict[tuple[str, str], tuple[int, DofPlan]] = {}
    if records.value_tracks:
        tracked = {record.path for record in records.value_tracks}
        for robot in kinematics.robots:
            for joint in robot.joints:
                if joint.path in tracked:
                    wanted.update(_track_names(joint, kinematics.joint_dofs(joint.path), solvers))
    best: dict[int, tuple[int, JointTrack]] = {}
    for record in records.value_tracks:
        found = wanted.get((record.path, record.attribute))
        if found is None or not len(record.time_codes):
            continue
        priority, dof = found
        usable = np.isfinite(record.values) & np.isfinite(record.time_codes)
        if not usable.all():
            _report_samples(record.path, int((~usable).sum()), findings)
        if not usable.any() or (dof.row in best and best[dof.row][0] <= priority):
            continue
        best[dof.row] = (
            priority,
            JointTrack(
                row=dof.row,
                time=record.time_codes[usable] * units.seconds,
                position=record.values[usable] * motion_unit(dof.axis, units),
            ),
        )
    return tuple(best[row][1] for row in sorted(best))


def _track_names(
    joint: TreeJoint, dofs: Sequence[DofPlan], solvers: Sequence[str]
) -> dict[tuple[str, str], tuple[int, DofPlan]]:
    return {
        (joint.path, name): (priority, dof)
        for dof in dofs
        for priority, name in enumerate(position_attributes(joint.record, dof.axis, solvers))
    }


def _report_samples(path: str, count: int, findings: DiagnosticCollector) -> None:
    findings.error(
        "1.1.samples",
        path,
        f"{count} time samples are not finite; they are left out",
        "author finite samples",
    )
