"""The drawing of frames: every frame with its parent, joints, and the kind of its edge."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from usd_ros_bridge.model.plan import BridgePlan, FramePlan, RobotPlan
from usd_ros_bridge.report.frame_drawing import MAX_FRAMES, draw_frames
from usd_ros_bridge.spatial.pose import IDENTITY_POSE

pytestmark = pytest.mark.app


def frames_of(drawing: str) -> dict[str, ET.Element]:
    return {each.find("text").text: each for each in ET.fromstring(drawing).iter("g")}


def test_every_frame_is_drawn_with_its_joint_and_its_topic(arm: BridgePlan) -> None:
    robot = arm.robots[0]
    drawing = draw_frames(0, robot)
    found = frames_of(drawing)
    assert set(found) == {"world", *(frame.id for frame in robot.frames)}
    for frame in robot.frames:
        kind = "static" if frame.static else "moving"
        assert found[frame.id].get("class") == f"frame {kind}"
        assert found[frame.id].get("data-frame") == f"0 {frame.id}"
        assert frame.path in found[frame.id].find("title").text
    notes = [each.text for each in found["link_1"].iter("text")]
    assert notes == ["link_1", "joint_1 (revolute Z)"]
    edges = [each.get("class") for each in ET.fromstring(drawing).iter("path")]
    assert edges.count("edge moving") == sum(not frame.static for frame in robot.frames)
    assert edges.count("edge static") == sum(frame.static for frame in robot.frames)


def test_a_child_is_below_its_parent_and_to_its_right(rover: BridgePlan) -> None:
    found = frames_of(draw_frames(0, rover.robots[0]))
    places = {
        name: (float(each.find("rect").get("x")), float(each.find("rect").get("y")))
        for name, each in found.items()
    }
    for frame in rover.robots[0].frames:
        assert places[frame.id][0] > places[frame.parent][0]
        assert places[frame.id][1] > places[frame.parent][1]
    assert len(set(places.values())) == len(places)


def chain(count: int) -> RobotPlan:
    frames = tuple(
        FramePlan(
            id=f"frame_{row}",
            parent=f"frame_{row - 1}" if row else "world",
            path=f"/robot/frame_{row}",
            static=False,
            parent_from_frame=IDENTITY_POSE,
            parent_index=row - 1,
        )
        for row in range(count)
    )
    return RobotPlan(path="/robot", namespace="/robot", domain_id=None, frames=frames)


def test_a_long_chain_is_neither_endlessly_wide_nor_endlessly_long() -> None:
    drawing = draw_frames(0, chain(MAX_FRAMES + 500))
    assert len(frames_of(drawing)) == MAX_FRAMES + 1
    assert float(re.search(r'width="(\d+)"', drawing)[1]) < 2000


def test_names_are_escaped() -> None:
    robot = chain(2)
    frames = (replace(robot.frames[0], id="<b onload='1'>\x1b"), *robot.frames[1:])
    drawing = draw_frames(0, replace(robot, frames=frames))
    assert "<b onload='1'>\\x1b" in frames_of(drawing)
