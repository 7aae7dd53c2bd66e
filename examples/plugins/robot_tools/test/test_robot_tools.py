"""The conformance tests, and what each plug-in does."""

from pathlib import Path

import pytest
from std_srvs.srv import Trigger

from usd_ros_bridge import Bridge, BridgeOptions, load_plan
from usd_ros_bridge.testing.plugin_conformance import (
    CommandConformance,
    ExporterConformance,
    HandlerConformance,
    run_command_line,
)

ASSET = Path(__file__).parent / "arm.usda"


class TestDot(ExporterConformance):
    format_name = "dot"
    asset = ASSET

    def test_frames_are_edges(self, tmp_path):
        done = run_command_line("export", ASSET, "-o", tmp_path / "arm.dot", "--static", folder=tmp_path)
        assert done.returncode == 0, done.stderr
        text = (tmp_path / "arm.dot").read_text(encoding="utf-8")
        assert '  "/arm base" -> "/arm link";\n' in text
        assert text.count("->") == len(load_plan(ASSET).robots[0].frames)


class TestJoints(CommandConformance):
    command_name = "joints"
    arguments = (ASSET,)

    def test_limits_are_in_radians(self, tmp_path):
        done = run_command_line("joints", ASSET, "--separator", ";", folder=tmp_path)
        assert done.stdout.decode() == "joint;lower;upper\nshoulder;-1.5708;1.5708\n"

    def test_a_missing_asset_is_one_line(self, tmp_path):
        done = run_command_line("joints", "missing.usda", folder=tmp_path)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


class TestHoming(HandlerConformance):
    handlers_name = "homing"
    asset = ASSET
    served = ("/arm/home",)
    backend = "mujoco"

    def test_the_service_moves_the_arm_home(self, ros_node, wait_for):
        options = BridgeOptions(handlers=("homing",))
        with Bridge(load_plan(ASSET, physics=True), "mujoco", options=options) as bridge:
            for _ in range(1500):
                bridge.step()
            data = bridge.parts.runtime.backend.simulation.data
            assert data.joint("/arm/shoulder").qpos[0] > 0.9
            client = ros_node.create_client(Trigger, "/arm/home")
            wait_for(client.service_is_ready, 20.0)
            answer = client.call_async(Trigger.Request())
            wait_for(lambda: bridge.step() and answer.done(), 30.0)
            assert answer.result().success, answer.result().message
            assert data.joint("/arm/shoulder").qpos[0] == pytest.approx(0.0, abs=0.05)
            assert answer.result().message.startswith("at home at ")
