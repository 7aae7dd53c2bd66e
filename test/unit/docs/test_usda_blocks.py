"""Every usda block of the documents parses, and leads to the plan that the text block behind it lists.

A line of such a block is the beginning of a fact about the plan. Where one frame, joint or topic is listed, all are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from markdown_docs import PAGES, Block, blocks

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from pxr import Sdf, Usd

from usd_ros_bridge.model.plan import BridgePlan, InterfacePlan, TopicPlan
from usd_ros_bridge.options import PlanOptions
from usd_ros_bridge.planning.make_plan import make_plan
from usd_ros_bridge.usd import read_stage

pytestmark = pytest.mark.docs

HEADER = """#usda 1.0
(
    defaultPrim = "robot"
    kilogramsPerUnit = 1
    metersPerUnit = 1
    timeCodesPerSecond = 1
    upAxis = "Z"
)
"""

COMPLETE = {"robot", "frame", "joint", "topic", "service", "action", "error", "warning"}
"""Kinds of facts that a listing gives all of, or none."""


def usda_blocks() -> list[tuple[Block, Block | None]]:
    """All usda blocks, each with the text block that follows it directly."""
    found = []
    for page in PAGES:
        of_page = blocks(page)
        following: list[Block | None] = [*of_page, None]
        for block, behind in zip(of_page, following[1:], strict=True):
            if block.language == "usda" and not (block.title or block.directive):
                expected = behind if behind is not None and behind.language == "text" else None
                found.append((block, expected))
    return found


BLOCKS = usda_blocks()


def open_block(block: Block) -> Usd.Stage:
    layer = Sdf.Layer.CreateAnonymous(".usda")
    text = block.text if block.text.startswith("#usda") else HEADER + block.text
    assert layer.ImportFromString(text), f"{block} does not parse"
    return Usd.Stage.Open(layer)


def facts(plan: BridgePlan) -> Iterator[str]:
    for robot in plan.robots:
        outputs = " ".join(f"tf={output.tf}" for output in robot.tf_outputs)
        yield f"robot {robot.path} namespace={robot.namespace} {outputs}"
        for frame in robot.frames:
            yield f"frame {frame.parent} -> {frame.id} {'/tf_static' if frame.static else '/tf'}"
        for joint in robot.joints:
            fact = f"joint {joint.name} {joint.type} {joint.parent} -> {joint.child}"
            for dof in joint.dofs if len(joint.dofs) == 1 else ():
                fact += f" position={dof.position:g} lower={dof.lower:g} upper={dof.upper:g}"
            yield fact
        if robot.joint_state_rows:
            yield "joint_states " + " ".join(plan.layout.dofs[row] for row in robot.joint_state_rows)
    for topic in plan.topics:
        qos = topic.qos
        policies = f"{qos.reliability} {qos.durability} {qos.history} {qos.depth}"
        yield f"topic {described(topic)} frame_id={topic.frame_id} {policies}"
    for service in plan.services:
        yield f"service {described(service)}"
    for action in plan.actions:
        yield f"action {described(action)}"
    for camera in plan.scene.cameras:
        intrinsics = f"fx={camera.fx:g} fy={camera.fy:g} cx={camera.cx:g} cy={camera.cy:g}"
        yield f"camera {camera.path} {camera.width}x{camera.height} {intrinsics}"
    for diagnostic in plan.diagnostics:
        yield f"{diagnostic.severity} [{diagnostic.code}] {diagnostic.path}"


def described(interface: InterfacePlan) -> str:
    assert isinstance(interface, TopicPlan) or interface.enabled, interface.reason
    return f"{interface.name} {interface.role} {interface.type}" + ("" if interface.enabled else " disabled")


def test_the_documents_have_usda_blocks() -> None:
    assert sum(expected is not None for _, expected in BLOCKS) >= 6


def test_blocks_parse() -> None:
    for block, _ in BLOCKS:
        stage = open_block(block)
        assert not stage.GetCompositionErrors(), block
        assert stage.GetDefaultPrim(), block


@pytest.mark.parametrize(("block", "expected"), [pair for pair in BLOCKS if pair[1] is not None], ids=str)
def test_block_leads_to_the_listed_plan(block: Block, expected: Block) -> None:
    stage = open_block(block)
    plan = make_plan(read_stage(stage, asset=str(block)), PlanOptions())
    actual = list(facts(plan))
    listed = expected.text.splitlines()
    for line in listed:
        tokens = line.split()
        assert any(fact.split()[: len(tokens)] == tokens for fact in actual), (line, actual)
    kinds = Counter(line.split()[0] for line in listed)
    of_plan = Counter(fact.split()[0] for fact in actual)
    incomplete = {kind for kind in kinds.keys() & COMPLETE if kinds[kind] != of_plan[kind]}
    assert not incomplete, actual
    assert "error" in kinds or "error" not in of_plan, actual
    assert "warning" in kinds or "warning" not in of_plan, actual
