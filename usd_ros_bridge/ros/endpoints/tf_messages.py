"""Messages of transforms: serialized ones, written in place or for robots alike together, and message objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from geometry_msgs.msg import TransformStamped
from numpy.typing import NDArray
from tf2_msgs.msg import TFMessage

from usd_ros_bridge.model.plan import FramePlan, RobotPlan, TfOutput
from usd_ros_bridge.model.transforms import FloatArray
from usd_ros_bridge.ros.cdr import Copies, Place, Row, SharedMessages, Template, TemplateError, Together
from usd_ros_bridge.ros.codecs.protocol import set_stamp
from usd_ros_bridge.ros.domains import Report
from usd_ros_bridge.runtime.frames import RobotFrames
from usd_ros_bridge.runtime.snapshot import Snapshot

TRANSFORMS = "transforms[].transform"
ROTATIONS = "transforms[].transform.rotation"
STAMPS = "transforms[].header.stamp"


def make_transform(robot: RobotPlan, frame: FramePlan, prefix: str) -> Any:
    """Returns a TransformStamped of a frame, its ids prefixed; the topmost `parent_frame` never is."""
    message = TransformStamped()
    message.header.frame_id, message.child_frame_id = frame_ids(robot, frame, prefix)
    return message


def frame_ids(robot: RobotPlan, frame: FramePlan, prefix: str) -> tuple[str, str]:
    """Returns the ids of a frame's parent and of the frame, as `make_transform` writes them."""
    topmost = frame.parent_index < 0 and frame.parent == robot.parent_frame
    return frame.parent if topmost else prefix + frame.parent, prefix + frame.id


def write_transforms(transforms: Iterable[Any], poses: FloatArray, stamp_ns: int) -> None:
    """Writes (N, 7) poses and a stamp into N TransformStamped."""
    for transform, (x, y, z, qx, qy, qz, qw) in zip(transforms, poses.tolist(), strict=True):
        set_stamp(transform.header.stamp, stamp_ns)
        translation, rotation = transform.transform.translation, transform.transform.rotation
        translation.x, translation.y, translation.z = x, y, z
        rotation.x, rotation.y, rotation.z, rotation.w = qx, qy, qz, qw


class SerializedTransforms:
    """A TFMessage of the moving frames of one robot, or of all robots whose frames have the same names.

    Attributes:
        data: The message.
        together: Writes it for several robots at once.
    """

    __slots__ = (
        "__weakref__", "_column", "_components", "_stamp_ns", "_stamps", "_template", "data", "together",
    )  # fmt: skip

    def __init__(self, message: Any, translated: FloatArray | None) -> None:
        """Finds the places.

        Args:
            message: TFMessage.
            translated: (F, 7) poses whose translations stay; None where translations change.

        Raises:
            TemplateError: It cannot be written in place.
        """
        template = self._template = Template(message)
        self.data = template.data
        self._stamps = template.stamps(STAMPS)
        self._stamp_ns = -1
        self._column = template.column(TRANSFORMS)
        self._components = slice(None)
        if translated is not None:
            self._column.write(translated)
            self._column = template.column(ROTATIONS)
            self._components = slice(3, None)
        self.together = Together(_RowOfTransforms(template, self._components))

    def renewed(self) -> SerializedTransforms:
        """Returns the same message for robots of another plan; only one of the two may be written from then on."""
        new = SerializedTransforms.__new__(SerializedTransforms)
        for name in ("_column", "_components", "_stamp_ns", "_stamps", "_template", "data"):
            setattr(new, name, getattr(self, name))
        new.together = Together(_RowOfTransforms(self._template, self._components))
        return new

    def write(self, stamp_ns: int, poses: FloatArray) -> None:
        """Writes (F, 7) poses and their stamp."""
        if stamp_ns != self._stamp_ns:
            self._stamps.write(stamp_ns)
            self._stamp_ns = stamp_ns
        self._column.write_components(poses.T[self._components])


class _RowOfTransforms:
    """Writes TFMessages of robots whose messages are alike; copied when the first row is written."""

    def __init__(self, template: Template, components: slice) -> None:
        self._template = template
        self._components = components
        self.most = Copies.fitting(template)
        self._copies: Copies | None = None
        self._stamp_ns = -1

    def write(self, snapshot: Snapshot, rows: slice, stamp_ns: int) -> Copies | None:
        copies = self._copies
        if copies is None:
            copies = self._copies = Copies(self._template)
            self._stamps = copies.stamps(STAMPS)
            self._column = copies.column(TRANSFORMS if self._components.start is None else ROTATIONS)
        if stamp_ns != self._stamp_ns:
            self._stamps.write(stamp_ns)
            self._stamp_ns = stamp_ns
        self._column.write_components(snapshot.all_frame_poses.T[self._components, rows])
        return copies


class RobotTransforms:
    """Makes the messages of the moving frames of one robot under one prefix.

    Frames that are left out, and a TFMessage that cannot be written in place, take message objects.
    """

    __slots__ = (
        "_frames", "_number", "_objects", "_prefix", "_regroup", "_report", "_robot", "_row", "_shared",
        "_templates", "_together", "_written",
    )  # fmt: skip

    def __init__(
        self, robot: RobotPlan, frames: RobotFrames, output: TfOutput, report: Report,
        shared: SharedMessages[SerializedTransforms], regroup: Callable[[], None],
    ) -> None:  # fmt: skip
        """Makes nothing yet.

        Args:
            robot: Whose frames.
            frames: Which of them move.
            output: Their prefix.
            report: For messages that cannot be written in place.
            shared: Messages that are written in turn.
            regroup: Called when it has got a `place`.
        """
        self._regroup = regroup
        self._robot = robot
        self._frames = frames
        self._prefix = output.prefix
        self._report = report
        self._shared = shared
        self._objects: list[Any] | None = None
        self._written: SerializedTransforms | None = None
        self._templates = True
        self._together: Together
        self._row: Row | None = None
        self._number = 0

    def show(self, snapshot: Snapshot, robot: int, stamp_ns: int, valid: NDArray[np.bool_] | None) -> Any:
        """Returns a message of what a snapshot shows, as `message` does.

        Args:
            snapshot: The snapshot.
            robot: Index of the robot.
            stamp_ns: Time of its state, nanoseconds.
            valid: (F,) which of its moving frames may be sent, None for all.
        """
        row = self._row
        if row is not None and row.several and valid is None and snapshot.common_ns is not None:
            together = self._together.message(row, self._number, snapshot, stamp_ns)
            if together is not None:
                return together
        message = self.message(stamp_ns, snapshot.frame_poses(robot), valid)
        if row is None and self._written is not None:
            self._together = self._written.together
            self._row, self._number = self._together.join(self._frames.span)
            self._regroup()
        return message

    @property
    def place(self) -> Place | None:
        """Where its messages are written along with other robots'; None while they are not."""
        row = self._row
        return None if row is None or not row.several else Place(self._together, row, self._number)

    def message(self, stamp_ns: int, poses: FloatArray, valid: NDArray[np.bool_] | None) -> Any:
        """Returns a message of what `TransformFeed` gives.

        Returns:
            A bytearray, valid until the next call for any robot, or a TFMessage.
        """
        if valid is None:
            written = self._written or self._find(poses)
            if written is not None:
                written.write(stamp_ns, poses)
                return written.data
        if self._objects is None:
            self._objects = self._make_objects()
        shown = self._objects
        if valid is not None:
            shown, poses = [shown[index] for index in np.flatnonzero(valid)], poses[valid]
        write_transforms(shown, poses, stamp_ns)
        return TFMessage(transforms=shown)

    def _make_objects(self) -> list[Any]:
        plans = self._robot.frames
        return [make_transform(self._robot, plans[index], self._prefix) for index in self._frames.moving]

    def _find(self, poses: FloatArray) -> SerializedTransforms | None:
        if not self._templates:
            return None
        frames = [self._robot.frames[index] for index in self._frames.moving]
        names = tuple(frame_ids(self._robot, frame, self._prefix) for frame in frames)
        # What only rotates is translated once, as it is in every sample.
        translated = poses if self._frames.rotate_only else None
        key = (names, None if translated is None else translated[:, :3].tobytes())
        try:
            self._written = self._shared.find(
                key,
                lambda: SerializedTransforms(TFMessage(transforms=self._make_objects()), translated),
                SerializedTransforms.renewed,
            )
        except TemplateError as error:
            self._templates = False
            self._report(
                f"template:{self._robot.path}",
                f"{self._robot.path}: transforms are published by way of message objects, which is slower: {error}",
            )
        return self._written


def static_transforms(robot: RobotPlan, frames: RobotFrames, output: TfOutput, time_ns: int) -> list[Any]:
    """Returns the TransformStamped of a robot's static frames."""
    transforms = [make_transform(robot, robot.frames[index], output.prefix) for index in frames.static]
    write_transforms(transforms, frames.static_poses, time_ns)
    return transforms
