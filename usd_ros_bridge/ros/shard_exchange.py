"""Shard exchange: the topics by which the bridges of a fleet send each other their time and where their robots are."""

from __future__ import annotations

import secrets
import struct
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

import numpy as np
from geometry_msgs.msg import TransformStamped
from rclpy.event_handler import SubscriptionEventCallbacks
from std_msgs.msg import Int64MultiArray
from tf2_msgs.msg import TFMessage

from usd_ros_bridge.backends.base import ObstacleBackend
from usd_ros_bridge.model.message_types import INT64_MULTI_ARRAY, TF_MESSAGE
from usd_ros_bridge.model.plan import WORLD, BridgePlan, QosPlan
from usd_ros_bridge.options import LockstepRole
from usd_ros_bridge.reporting import Report, describe
from usd_ros_bridge.ros.bridge_status import InterfaceStatus
from usd_ros_bridge.ros.compat import ROS_ERRORS, publisher_count
from usd_ros_bridge.ros.domains import Domain
from usd_ros_bridge.ros.endpoints import qos_profiles
from usd_ros_bridge.ros.endpoints.subscription import DirectSubscription, DirectUnavailableError
from usd_ros_bridge.ros.publisher_handle import PublisherHandle
from usd_ros_bridge.ros.wire.cdr_reader import TransformsLayout
from usd_ros_bridge.ros.wire.cdr_template import Template, pack_stamp
from usd_ros_bridge.runtime.inbox import Wakeup
from usd_ros_bridge.runtime.lockstep import Epoch, Grant, ShardReport
from usd_ros_bridge.runtime.obstacle_poses import ObstaclePoses, ShardPoses
from usd_ros_bridge.runtime.plan_binding import PlanBinding, PreparedChange
from usd_ros_bridge.runtime.publications import Publication
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.spatial.transforms import IDENTITY

POSES_TOPIC: Final = "fleet/body_poses"
"""Poses of the robots of all shards, relative to the namespace of the node."""
TIME_TOPIC: Final = "fleet/lockstep"
"""What the leader grants."""
STALE_S: Final = 0.5
"""Without lockstep, obstacles of a shard that is silent for longer stand still, wall seconds."""
_DEPTH: Final = 10
"""Messages that a publisher keeps: two are enough between two stops."""
_READER_DEPTH: Final = 1000
"""Messages of all shards that wait to be taken."""
_TAKEN: Final = 1000
_FREE = Epoch(0, 0)
_NORM_TOLERANCE: Final = 1e-2
_MAX_LAYOUTS: Final = 1000
_FORGET_S: Final = 60.0

# Plain CDR, little endian: std_msgs/Int64MultiArray without dimensions.
_HEAD: Final = struct.Struct("<4s4I")
_LITTLE_ENDIAN: Final = b"\x00\x01\x00\x00"
_FIXED: Final = 6


def pack_grant(grant: Grant) -> bytearray:
    """Return the message of a grant: session, epoch, from, limit (ns), 1 for a stop + 2 for an exchange, members."""
    flags = int(grant.stops) + 2 * int(grant.exchanges)
    numbers = (*grant.epoch, grant.from_ns, grant.limit_ns, flags, len(grant.members), *grant.members)
    return bytearray(
        _HEAD.pack(_LITTLE_ENDIAN, 0, 0, len(numbers), 0) + struct.pack(f"<{len(numbers)}q", *numbers)
    )


def unpack_grant(data: bytes) -> Grant | None:
    """Return the grant of a message; None for anything else."""
    if len(data) < _HEAD.size + 8 * _FIXED:
        return None
    header, dimensions, offset, count, _ = _HEAD.unpack_from(data)
    if header != _LITTLE_ENDIAN or dimensions or offset or len(data) < _HEAD.size + 8 * count:
        return None
    numbers = struct.unpack_from(f"<{count}q", data, _HEAD.size)
    if count < _FIXED or count != _FIXED + numbers[5]:
        return None
    session, number, from_ns, limit_ns, flags, _ = numbers[:_FIXED]
    return Grant(
        Epoch(session, number), from_ns, limit_ns, bool(flags & 1), bool(flags & 2), tuple(numbers[_FIXED:])
    )


class RawInput:
    """Serialized messages of a topic, for the thread that ticks; an arrival ends its wait."""

    def __init__(
        self, domain: Domain, message_class: Any, topic: str, qos: QosPlan, *, wakeup: Wakeup
    ) -> None:
        """Subscribe.

        Args:
            domain: Where the topic is.
            message_class: Class of the messages.
            topic: Name before remaps.
            qos: Quality of service.
            wakeup: Set when a message arrives.
        """
        self._domain = domain
        self._wakeup = wakeup
        self._messages: deque[bytes] = deque(maxlen=_READER_DEPTH)
        self._direct: DirectSubscription | None = None
        profile = qos_profiles.profile(qos)
        events = SubscriptionEventCallbacks(use_default_callbacks=False)
        try:
            self._direct = DirectSubscription(
                domain.node, message_class, topic, profile, events=events, wakeup=wakeup
            )
            self.subscription: Any = self._direct.subscription
        except DirectUnavailableError:
            self.subscription = domain.node.create_subscription(
                message_class, topic, self._receive, profile, event_callbacks=events, raw=True
            )

    def take(self) -> list[bytes]:
        """Return and remove the messages that wait."""
        if self._direct is not None:
            return self._direct.take(_TAKEN)
        found = []
        with suppress(IndexError):
            while True:
                found.append(self._messages.popleft())
        return found

    def close(self) -> None:
        """Destroy the subscription. Idempotent."""
        if self._direct is not None:
            self._direct.close()
            self._direct = None
        subscription, self.subscription = self.subscription, None
        if subscription is not None:
            self._domain.destroy(subscription)

    def _receive(self, data: bytes) -> None:
        self._messages.append(data)
        self._wakeup.set()


class PosesMessage:
    """The message with the poses of a shard's robots.

    Its first transform is about the shard: the child frame is its name, and the translation holds the session, the
    epoch, and the number of the process, negative if the shard leaves. The others are `world_from_body`; the child
    frames are prim paths.
    """

    def __init__(self, shard: str, process: float, bodies: Iterable[str]) -> None:
        """Build the message.

        Args:
            shard: Name of the shard.
            process: A positive number that no other process has.
            bodies: Prim paths.
        """
        self._process = process
        names = [shard, *bodies]
        transforms = []
        for name in names:
            transform = TransformStamped()
            transform.header.frame_id, transform.child_frame_id = WORLD, name
            transforms.append(transform)
        self._template = Template(TFMessage(transforms=transforms))
        self._poses = self._template.column("transforms[].transform")
        self._stamps = self._template.stamps("transforms[].header.stamp")
        self._values = np.tile(IDENTITY, (len(names), 1))

    def write(self, report: ShardReport, poses: Any) -> bytearray:
        """Return the serialized message of a report, with poses (N, 7); valid until the next call."""
        self._values[0, :3] = *report.epoch, -self._process if report.leaves else self._process
        self._values[1:] = poses
        self._poses.write(self._values)
        self._stamps.write(pack_stamp(report.time_ns))
        return self._template.data


class ShardExchange(Publication):
    """The topics of a shard: poses of all shards, and the leader's grants. It is the `FleetLink` of lockstep.

    Everything but `status` belongs to the thread that ticks. As a publication, it publishes poses at its rate where
    there is no lockstep.
    """

    def __init__(
        self,
        domain: Domain,
        backend: object,
        *,
        shard: int | None,
        role: LockstepRole,
        wakeup: Wakeup,
        report: Report,
    ) -> None:
        """Store the arguments; `open` acquires.

        Args:
            domain: Domain of the fleet.
            backend: The backend of the bridge, open.
            shard: Number of the shard, from 1 on; None: it has none, and its node's name stands for it.
            role: What the bridge is in lockstep.
            wakeup: Set when a message arrives.
            report: For messages that cannot be read.
        """
        super().__init__()
        self._domain = domain
        self._role = role
        self._wakeup = wakeup
        self._report = report
        self._process = float(secrets.randbelow(2**52) + 1)
        self._shard = shard
        self._name = domain.node.get_fully_qualified_name() if shard is None else shard_name(shard)
        self._backend: ObstacleBackend | None = None
        self._obstacles = ObstaclePoses()
        self._message: PosesMessage | None = None
        self._layouts: dict[tuple[int, bytes], TransformsLayout] = {}
        self._heard_s: dict[str, float] = {}
        self._moving = False
        self._fresh = False
        self._poses_out: PublisherHandle | None = None
        self._grants_out: PublisherHandle | None = None
        self._poses_in: RawInput | None = None
        self._grants_in: RawInput | None = None
        self.on_report: Callable[[ShardReport], None] = lambda _: None
        """Called with the report of another shard."""
        self.on_grant: Callable[[Grant], None] = lambda _: None
        """Called with a grant of the leader."""
        self._use_backend(backend)

    # --- Life cycle --------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Create publishers and subscriptions."""
        domain, keeps = self._domain, QosPlan(durability="transient_local", depth=_DEPTH)
        takes = QosPlan(durability="transient_local", depth=_READER_DEPTH)
        profile = qos_profiles.profile(keeps)
        self._poses_out = domain.open_publisher(TFMessage, POSES_TOPIC, profile)
        self._poses_in = RawInput(domain, TFMessage, POSES_TOPIC, takes, wakeup=self._wakeup)
        latest = QosPlan(durability="transient_local", depth=1)
        if self._role == "leader":
            self._grants_out = domain.open_publisher(
                Int64MultiArray, TIME_TOPIC, qos_profiles.profile(latest)
            )
        if self._role == "follower":
            self._grants_in = RawInput(domain, Int64MultiArray, TIME_TOPIC, latest, wakeup=self._wakeup)

    def close(self) -> None:
        """Destroy publishers and subscriptions. Idempotent."""
        inputs, self._poses_in, self._grants_in = (self._poses_in, self._grants_in), None, None
        outputs, self._poses_out, self._grants_out = (self._poses_out, self._grants_out), None, None
        for each in inputs:
            if each is not None:
                each.close()
        for handle in outputs:
            if handle is not None:
                handle.close(self._domain.destroy)
        # They refer to the lockstep, which refers to this object.
        self.on_report, self.on_grant = (lambda _: None), (lambda _: None)
        self._backend = None

    def prepare(self, plan: BridgePlan, binding: PlanBinding) -> PreparedChange:
        """Prepare for other bodies, as `PlanComponent.prepare`."""
        del plan
        return PreparedChange(commit=lambda: self._use_backend(binding.backend))

    # --- FleetLink ---------------------------------------------------------------------------------------------

    def poll(self) -> None:
        """Take what has arrived."""
        for each, receive in ((self._poses_in, self._receive), (self._grants_in, self._receive_grant)):
            if each is None:
                continue
            for data in each.take():
                try:
                    receive(data)
                except Exception as error:  # noqa: BLE001 - a stranger's message must not end the loop
                    self._report(
                        "fleet.message:error", f"a message of another shard is ignored: {describe(error)}"
                    )

    def send_grant(self, grant: Grant) -> None:
        """Send a grant."""
        if self._grants_out is not None:
            self._send(self._grants_out, pack_grant(grant))

    def send_report(self, report: ShardReport) -> None:
        """Send a report with the poses of this shard's robots."""
        if self._poses_out is None:
            return
        backend = self._backend
        if self._message is None:
            self._message = PosesMessage(
                self._name, self._process, () if backend is None else backend.robot_bodies()
            )
        poses = np.zeros((0, 7)) if backend is None else backend.body_poses()
        self._send(self._poses_out, self._message.write(report, poses))

    def has_poses(self, shard: int, epoch: Epoch, time_ns: int) -> bool:
        """Return whether the poses of a shard at a stop have arrived."""
        return self._obstacles.has(shard_name(shard), epoch, time_ns)

    def use_poses(self, members: Iterable[int], epoch: Epoch, time_ns: int, *, exact: bool) -> None:
        """Put obstacles where the robots of members are."""
        if self._backend is None:
            return
        names = [shard_name(number) for number in members if shard_name(number) != self._name]
        if exact:
            self._backend.move_obstacles(self._obstacles.at(names, epoch, time_ns))
        else:
            self._backend.move_obstacles(self._obstacles.newest(names))

    def use_newest(self, time_ns: int) -> None:
        """Put obstacles where they are by the newest messages; those of silent shards stand still."""
        del time_ns
        now = time.monotonic()
        live = [name for name, heard in self._heard_s.items() if now - heard < STALE_S]
        if self._backend is None or not (self._fresh or (self._moving and len(live) < len(self._heard_s))):
            return
        motion = self._obstacles.newest(live)
        self._fresh, self._moving = False, bool(motion.twists.any())
        self._backend.move_obstacles(motion)
        for name in [name for name, heard in self._heard_s.items() if now - heard > _FORGET_S]:
            del self._heard_s[name]
            self._obstacles.forget(name)

    # --- Publication -------------------------------------------------------------------------------------------

    def publish(self, snapshot: Snapshot) -> bool:
        """Publish the poses of this shard's robots, without lockstep."""
        self.send_report(ShardReport(0, _FREE, snapshot.time_ns))
        return True

    def reset(self) -> None:
        """Do nothing: lockstep reports the reset."""

    # --- Status ------------------------------------------------------------------------------------------------

    def status(self) -> list[InterfaceStatus]:
        """Return a row for each topic, from any thread."""
        rows = []
        for handle, type_name in ((self._poses_out, TF_MESSAGE), (self._grants_out, INT64_MULTI_ARRAY)):
            if handle is not None:
                rows.append(self._row(handle.topic_name, type_name, "publisher", handle.matched()))
        for each, type_name in ((self._poses_in, TF_MESSAGE), (self._grants_in, INT64_MULTI_ARRAY)):
            subscription = None if each is None else each.subscription
            if subscription is not None:
                matched = publisher_count(self._domain.node, subscription)
                rows.append(self._row(subscription.topic_name, type_name, "subscription", matched))
        return rows

    def _row(self, name: str, type_name: str, role: Any, matched: int) -> InterfaceStatus:
        return InterfaceStatus(
            kind="topic",
            role=role,
            path="",
            name=name,
            type=type_name,
            domain_id=self._domain.domain_id,
            matched=matched,
            state="active" if matched else "idle",
        )

    # --- Own ---------------------------------------------------------------------------------------------------

    def _use_backend(self, backend: object) -> None:
        self._backend = backend if isinstance(backend, ObstacleBackend) else None
        self._obstacles.set_obstacles(() if self._backend is None else self._backend.obstacles())
        self._message = None
        self._fresh = True

    def _receive(self, data: bytes) -> None:
        """Keep the poses of another shard, and pass its report on."""
        layout = self._layout(data)
        if layout is None:
            self._report(
                f"fleet.message:{len(data)}", f"{POSES_TOPIC}: a message that cannot be read is ignored"
            )
            return
        name, poses = layout.names[0], layout.poses(data)
        session, number, process = poses[0, :3].tolist()
        if name == self._name and abs(process) == self._process:
            return
        if name == self._name and self._shard is not None:
            self._report(
                f"fleet.duplicate:{name}",
                f"another bridge is {name}, too: its robots are ignored; use another shard",
            )
            return
        norms = np.square(poses[:, 3:]).sum(axis=1)
        if not (np.isfinite(poses).all() and (np.abs(norms - 1.0) < _NORM_TOLERANCE).all()):
            self._report(
                f"fleet.message:{name}", f"{POSES_TOPIC}: poses of {name} cannot be used; they are ignored"
            )
            return
        shard = shard_number(name)
        epoch = Epoch(int(session), int(number))
        report = ShardReport(shard, epoch, layout.stamp_ns(data), leaves=process < 0.0)
        # Nodes may have equal names.
        key = name if shard else f"{name} {abs(process):.0f}"
        if report.leaves:
            self._heard_s.pop(key, None)
        else:
            self._heard_s[key] = time.monotonic()
            self._obstacles.put(
                key, ShardPoses(epoch=epoch, time_ns=report.time_ns, names=layout.names, poses=poses)
            )
        self._fresh = True
        self.on_report(report)

    def _receive_grant(self, data: bytes) -> None:
        grant = unpack_grant(data)
        if grant is not None:
            self.on_grant(grant)

    def _send(self, handle: PublisherHandle, data: bytearray) -> None:
        try:
            handle.send(data)
        except ROS_ERRORS as error:
            # The context goes down before the bridge does where a signal ends both.
            self._report("fleet.send", f"nothing can be sent to other shards: {describe(error)}")

    def _layout(self, data: bytes) -> TransformsLayout | None:
        # The first names tell shards apart.
        key = len(data), bytes(data[16:40])
        layout = self._layouts.get(key)
        if layout is None or not layout.fits(data):
            layout = TransformsLayout.of(data)
            if layout is not None:
                if len(self._layouts) >= _MAX_LAYOUTS:
                    self._layouts.clear()
                self._layouts[key] = layout
        return layout


def shard_name(number: int) -> str:
    """Return the name of a shard."""
    return f"shard_{number}"


def shard_number(name: str) -> int:
    """Return the number of a shard by its name, 0 for a bridge that is none."""
    head, _, number = name.partition("_")
    return int(number) if head == "shard" and number.isdecimal() and len(number) < 10 else 0
