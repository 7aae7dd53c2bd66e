"""A change that cannot be is refused with a reason, and what runs goes on as it was."""

from __future__ import annotations

import queue
import signal
import subprocess
import sys
import threading
from subprocess import PIPE
from typing import Any

import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from edited_stage import edited_stage
from live_changes import (
    HEAD,
    POINTS,
    ROVER,
    TIMEOUT_S,
    head,
    names,
)
from pxr import Sdf

from usd_ros_bridge import Bridge, BridgeError, VariantSelection, load_plan
from usd_ros_bridge.testing.graphs import graph_of, settled_difference
from usd_ros_bridge.usd.edit.lock import lock_of

# --- What is refused -------------------------------------------------------------------------------------------------


def test_a_stage_that_loses_its_default_prim_is_not_followed(step_on):
    stage = edited_stage()
    stepped = step_on(stage)
    before = graph_of(stepped.bridge)
    stage.GetRootLayer().ClearDefaultPrim()
    stepped.until(lambda: stepped.reported("default prim"), "a report")
    assert not settled_difference(stepped.bridge, before, step=stepped.step)
    stage.GetRootLayer().defaultPrim = "World"
    stage.GetPrimAtPath(ROVER).GetVariantSet(HEAD).SetVariantSelection("both")
    stepped.until(lambda: POINTS in names(stepped.bridge), "the change after the repair")


def test_a_stage_that_loses_all_contexts_is_not_followed(step_on):
    stage = edited_stage()
    stepped = step_on(stage)
    before = graph_of(stepped.bridge)
    with Sdf.ChangeBlock():
        for name in ("arm", "rover", "mast"):
            stage.GetPrimAtPath(f"/World/{name}").RemoveAppliedSchema("RosContextAPI")
    stepped.until(lambda: stepped.reported("RosContextAPI"), "a report")
    assert not settled_difference(stepped.bridge, before, step=stepped.step)


def test_a_variant_that_does_not_exist_is_refused_with_what_there_is(start, edited_asset):
    bridge = start(load_plan(edited_asset)).bridge
    before = graph_of(bridge)
    with pytest.raises(BridgeError, match=r"bare.*both.*lidar"):
        bridge.change(variants=head("wings")).result(TIMEOUT_S)
    with pytest.raises(BridgeError, match="/World/nothing"):
        bridge.change(variants=[VariantSelection("/World/nothing", HEAD, "both")]).result(TIMEOUT_S)
    assert bridge.changes.variants == ()
    assert not settled_difference(bridge, before)
    assert bridge.change(variants=head("both")).result(TIMEOUT_S).opened


def test_a_hosts_stage_is_read_only_unless_the_host_says_otherwise(step_on):
    stage = edited_stage()
    stepped = step_on(stage)
    before, session = graph_of(stepped.bridge), stage.GetSessionLayer().ExportToString()
    assert "scene_edits" in stepped.refusal(stepped.bridge.change(variants=head("both")))
    assert "scene_edits" in stepped.refusal(stepped.bridge.change(edit=lambda stage: stage.RemovePrim(ROVER)))
    assert not settled_difference(stepped.bridge, before, step=stepped.step)
    assert stage.GetSessionLayer().ExportToString() == session
    assert stage.GetPrimAtPath(ROVER)


def test_an_edit_that_raises_is_refused_and_taken_back(start, edited_asset):
    bridge = start(load_plan(edited_asset)).bridge
    before = graph_of(bridge)

    def edit(stage: Any) -> None:
        stage.GetPrimAtPath("/World/mast").SetActive(False)
        raise ValueError("the editor gives up")

    with pytest.raises(BridgeError, match="the editor gives up"):
        bridge.change(edit=edit).result(TIMEOUT_S)
    assert not settled_difference(bridge, before)


def test_an_edit_beside_a_request_that_is_refused_is_followed(start, edited_asset):
    bridge = start(load_plan(edited_asset)).bridge
    reports: queue.Queue[Any] = queue.Queue()
    go_on = threading.Event()

    def note(report: Any) -> None:
        reports.put(report)
        assert go_on.wait(TIMEOUT_S)

    def edit(_stage: Any) -> None:
        raise ValueError("the editor gives up")

    bridge.changes.on_change(note)
    bridge.change(variants=head("both"))
    reports.get(timeout=TIMEOUT_S)
    # Until the first change's listener returns, nobody carries anything out: both are found at once.
    with lock_of(bridge.plan.stage):
        bridge.plan.stage.GetPrimAtPath("/World/mast").SetActive(False)
    refused = bridge.change(edit=edit)
    go_on.set()
    with pytest.raises(BridgeError, match="the editor gives up"):
        refused.result(TIMEOUT_S)
    reports.get(timeout=TIMEOUT_S)
    assert not any("/mast/" in name for name in names(bridge))


def test_a_file_that_is_no_asset_any_more_is_not_followed(start, edited_asset):
    bridge = start(load_plan(edited_asset)).bridge
    before, text = graph_of(bridge), edited_asset.read_text(encoding="utf-8")

    def refuses() -> None:
        with pytest.raises(BridgeError, match=r"robots\.usda"):
            bridge.reload().result(TIMEOUT_S)
        assert not settled_difference(bridge, before)

    edited_asset.unlink()
    refuses()
    # Empty, half written, without a default prim.
    for content in ("", '#usda 1.0\n(\n    defaultPrim = "World"\n', "#usda 1.0\n"):
        edited_asset.write_text(content, encoding="utf-8")
        refuses()
    edited_asset.write_text(text.replace('"both"', '"all"'), encoding="utf-8")
    bridge.reload().result(TIMEOUT_S)
    assert bridge.change(variants=head("all")).result(TIMEOUT_S).opened == (f"publisher {POINTS}",)


def test_text_that_is_not_utf_8_is_refused_and_named(start, edited_asset):
    bridge = start(load_plan(edited_asset)).bridge
    before, text = graph_of(bridge), edited_asset.read_text(encoding="utf-8")
    edited_asset.write_text(text.replace('upAxis = "Z"', 'upAxis = "\\x9b"'), encoding="utf-8")
    with pytest.raises(BridgeError, match=r"'robots\.usda' has text that is not UTF-8: upAxis"):
        bridge.reload().result(TIMEOUT_S)
    assert not settled_difference(bridge, before)


def test_time_samples_that_cannot_be_used_hold_up_nothing(start, edited_asset):
    bridge = start(load_plan(edited_asset)).bridge
    moving = edited_asset.with_name("moving.usda")
    moving.write_text(
        '#usda 1.0\n(\n    timeCodesPerSecond = 0\n)\nover "World"\n{\n'
        '    def Xform "flag" (prepend apiSchemas = ["RosFrameAPI"])\n    {\n'
        "        double3 xformOp:translate.timeSamples = { 0: (0, 0, 0), 1: (1, 0, 0) }\n"
        '        uniform token[] xformOpOrder = ["xformOp:translate"]\n    }\n}\n',
        encoding="utf-8",
    )
    text = edited_asset.read_text(encoding="utf-8")
    edited_asset.write_text(
        text.replace("(\n", "(\n    subLayers = [@./moving.usda@]\n", 1), encoding="utf-8"
    )
    bridge.reload().result(TIMEOUT_S)
    found = [each for each in bridge.plan.diagnostics if each.severity == "error"]
    assert {each.code for each in found} == {"1.1.time_codes_per_second", "1.1.samples"}
    assert {each.layer for each in found} == {str(moving)}


STUCK = """
import ctypes, sys
from usd_ros_bridge import Bridge, load_plan
from usd_ros_bridge.process_settings import ended_by_signals, own_process

def never_returns(stage):
    sys.setswitchinterval(1000)
    # A call through PyDLL keeps Python's lock.
    ctypes.PyDLL(None).write(1, b"in\\n", 3)
    ctypes.PyDLL(None).sleep(600)

with own_process(), ended_by_signals() as ending, Bridge(load_plan(sys.argv[1])) as bridge:
    ending.stop = bridge.stop
    bridge.change(edit=never_returns)
    bridge.spin()
"""


@pytest.mark.process
def test_a_change_that_never_returns_can_be_ended(edited_asset):
    with subprocess.Popen(
        [sys.executable, "-c", STUCK, edited_asset], stdout=PIPE, stderr=PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "in\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == -signal.SIGKILL
    assert "a call of OpenUSD does not end: the process is killed" in errors


def test_a_bridge_without_a_stage_cannot_change(start):
    from ros_plans import JOINT_STATES, plan

    bridge = start(plan(JOINT_STATES)).bridge
    with pytest.raises(BridgeError, match="stage"):
        bridge.change(variants=head("both")).result(TIMEOUT_S)
    with pytest.raises(BridgeError, match="stage"):
        bridge.reload().result(TIMEOUT_S)


def test_a_bridge_that_closes_during_a_change_ends_and_says_so(edited_asset):
    for rounds in range(5):
        bridge = Bridge(load_plan(edited_asset), report=lambda *_: None, inform=lambda *_: None).open()
        spin = threading.Thread(target=bridge.spin)
        spin.start()
        refusals: list[str] = []
        calls = [bridge.change(variants=head(variant)) for variant in ("both", "bare")[: 1 + rounds % 2]]
        bridge.close()
        spin.join(TIMEOUT_S)
        assert not spin.is_alive()
        for each in calls:
            try:
                each.result(TIMEOUT_S)
            except BridgeError as error:
                refusals.append(str(error))
        assert all("closed" in each for each in refusals), refusals
        with pytest.raises(BridgeError):
            bridge.change(variants=head("both"))


def test_a_bridge_that_closes_during_a_change_leaves_nothing_on_the_hosts_node(step_on, ros_harness):
    node = ros_harness.node

    def entities() -> list[Any]:
        return [*node.publishers, *node.subscriptions, *node.services, *node.clients, *node.timers]

    before = entities()
    for steps in range(12):
        stage = edited_stage()
        stepped = step_on(stage, node=node, publish_description=False)
        stage.GetPrimAtPath("/World/mast").GetAttribute("ros:context:namespace").Set("fleet")
        # How far the change gets until then is the thread's.
        stepped.step(steps)
        stepped.bridge.close()
        assert entities() == before
