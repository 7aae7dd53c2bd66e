"""Steps of a runtime's opening: the backend is opened, and what shows its state is made to fit what it can do."""

from __future__ import annotations

from usd_ros_bridge.backends.protocol import Backend, BackendContext, BackendInput, Report
from usd_ros_bridge.model.errors import BackendError, BridgeError
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.runtime.frames import FrameTable
from usd_ros_bridge.runtime.kinematics import Kinematics
from usd_ros_bridge.runtime.odometry import OdometryTable
from usd_ros_bridge.runtime.options import RuntimeOptions
from usd_ros_bridge.runtime.report import describe
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.runtime.stepper import find_sense


def open_backend(
    plan: BridgePlan, backend: Backend, options: RuntimeOptions, report: Report
) -> tuple[tuple[BackendInput, ...], frozenset[int]]:
    """Opens a backend.

    Args:
        plan: What it is to move.
        backend: Not open yet; who called closes it, also where this fails.
        options: The backend's options and seed are among them.
        report: Where its warnings go.

    Returns:
        The topics it needs, and the robots, by index, whose state arrives by them.

    Raises:
        BackendError: The backend refuses its options, or fails to open.
    """
    try:
        backend.open(
            BackendContext(plan=plan, report=report, options=options.backend_options, seed=options.seed)
        )
        inputs = backend.inputs()
        return inputs, frozenset(each.robot for each in inputs if backend.capabilities.topic_driven)
    except BridgeError:
        raise
    except Exception as error:
        raise BackendError(f"backend {type(backend).__name__} cannot be opened: {describe(error)}") from error


def make_views(
    plan: BridgePlan, backend: Backend, kinematics: Kinematics, odometry: OdometryTable, report: Report
) -> tuple[FrameTable, Snapshot]:
    """Makes what shows a backend's state.

    Args:
        plan: The plan.
        backend: Open.
        kinematics: The plan's.
        odometry: What controllers know of their robots' bases.
        report: Where warnings go.

    Returns:
        The frames of all robots, and the snapshot that computes where they are.
    """
    joint_driven = backend.capabilities.joint_driven
    frames = FrameTable(plan, kinematics, joint_driven=joint_driven, report=report, odometry=odometry)
    snapshot = Snapshot(
        plan, kinematics, frames, joint_driven=joint_driven, sense=find_sense(backend), odometry=odometry
    )
    return frames, snapshot
