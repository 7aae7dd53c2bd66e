"""What robot_state_publisher's stand-in sends, and what the description says: the same frames, for every asset."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.export.urdf import robot_urdf
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import ROBOT_STATE_PUBLISHER, PlanOptions
from usd_ros_bridge.runtime.frame_poses import FrameTable
from usd_ros_bridge.runtime.kinematics import Kinematics
from usd_ros_bridge.usd import quiet

ROOT = Path(__file__).parents[2]
EXAMPLES = [ROOT / "examples" / name for name in ("arm/arm.usda", "rover/rover.usda", "fleet/fleet.usda")]


def planned(asset: Path) -> BridgePlan:
    """The plan of an asset as the stand-in makes it."""
    defaults = ROBOT_STATE_PUBLISHER.defaults
    options = PlanOptions(
        **{name: defaults[name] for name in ("tf_output", "base_transform", "interfaces")}  # type: ignore[arg-type]
    )
    with quiet():
        return load_plan(asset, plan_options=options)


@pytest.mark.heavy
def test_what_is_sent_is_what_is_described_for_every_asset() -> None:
    for asset in sorted((ROOT / "test" / "assets").glob("*.usda")):
        compare_frames(asset)


def test_what_is_sent_is_what_is_described() -> None:
    for asset in EXAMPLES:
        compare_frames(asset)


def compare_frames(asset: Path) -> None:
    plan = planned(asset)
    table = FrameTable(plan, Kinematics(plan), joint_driven=True, report=lambda *_: None)
    for number, robot in enumerate(plan.robots):
        frames = table.robots[number]
        sent = {robot.frames[n].id: robot.frames[n].parent for n in (*frames.moving, *frames.static)}
        urdf = robot_urdf(plan, number)
        described = set(urdf.links[1:]) - set(urdf.added_links)
        if robot.base >= 0:
            # One that is a body among others is on a floating joint, which robot_state_publisher does not send.
            described -= {robot.frames[robot.base].id}
        # What does not hang from a base that moves freely is no part of the robot, and still where it is.
        beside = {
            each
            for each in set(sent) - described
            if robot.base >= 0 and urdf.links[0] not in ancestors(sent, each)
        }
        assert set(sent) == described | beside, asset.stem
        assert urdf.links[0] not in sent, "where the robot stands is for others to say"


def ancestors(parents: dict[str, str], frame: str) -> set[str]:
    """The frames above a frame, as far as they are known."""
    found = set()
    while frame in parents:
        frame = parents[frame]
        found.add(frame)
    return found
