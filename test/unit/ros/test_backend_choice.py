"""Which backend `auto` stands for, and what happens where it cannot be had."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")
pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from builders.pendulums import PendulumBackend
from usd_ros_bridge import load_plan
from usd_ros_bridge.backends.base import BackendContext
from usd_ros_bridge.backends.registry import load_backend
from usd_ros_bridge.errors import BackendError
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import PlanOptions
from usd_ros_bridge.ros import backend_choice
from usd_ros_bridge.ros.backend_choice import AUTO, Choice, choose, wants_physics
from usd_ros_bridge.ros.bridge import Bridge

ROOT = Path(__file__).parents[3]
ROVER = ROOT / "examples" / "rover"
ARM = ROOT / "examples" / "arm" / "arm.usda"
NO_DRIVES = ROOT / "test" / "assets" / "services_actions.usda"


def chosen(plan: BridgePlan, **options: bool) -> tuple[Choice, str]:
    told: list[str] = []
    choice = choose(plan, AUTO, inform=lambda _kind, message: told.append(message), **options)
    (line,) = told
    return choice, line


def test_drives_are_simulated() -> None:
    pytest.importorskip("mujoco", reason="MuJoCo is not installed: make setup")
    choice, line = chosen(load_plan(ARM))
    assert choice.name == "mujoco"
    assert choice.replaceable
    assert choice.plan.physics is not None
    assert line == "backend mujoco: the asset has drives, actuators, or bodies that fall"


def test_what_nothing_drives_is_not() -> None:
    pytest.importorskip("mujoco", reason="MuJoCo is not installed: make setup")
    choice, line = chosen(load_plan(NO_DRIVES))
    assert choice.name == "kinematic"
    assert line.startswith("backend kinematic: nothing in the asset needs forces")


def test_what_would_move_under_forces_all_the_same_is_said(tmp_path: Path) -> None:
    pytest.importorskip("mujoco", reason="MuJoCo is not installed: make setup")
    choice, line = chosen(load_plan(ROOT / "test" / "assets" / "frame_chain.usda"))
    assert choice.name == "kinematic"
    assert line == (
        "backend kinematic: no joint has a drive: under forces all would give way; the backend mujoco simulates them"
    )
    crates = tmp_path / "crates.usda"
    crates.write_text(
        """#usda 1.0
(defaultPrim = "scene")
def Xform "scene" {
    def Cube "floor" ( prepend apiSchemas = ["PhysicsCollisionAPI"] ) {}
    def Cube "a" ( prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"] ) {}
    def Cube "b" ( prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"] ) {}
}
""",
        encoding="utf-8",
    )
    choice, line = chosen(load_plan(crates))
    assert choice.name == "kinematic"
    assert line == (
        "backend kinematic: 2 bodies that are free belong to no robot; the backend mujoco simulates them"
    )


def test_a_robot_that_would_fall_for_ever_is_not_dropped() -> None:
    pytest.importorskip("mujoco", reason="MuJoCo is not installed: make setup")
    alone, line = chosen(load_plan(ROVER / "rover.usda"))
    assert alone.name == "kinematic"
    assert line == "backend kinematic: the robot would fall: nothing in the asset is there to stand on"
    assert chosen(load_plan(ROVER / "world.usda"))[0].name == "mujoco"
    scene = alone.plan.physics
    assert scene is not None
    assert scene.falling_body
    assert not replace(scene, gravity=(0.0, 0.0, 0.0)).falling_body
    weightless = tuple(replace(body, gravity_scale=0.0) for body in scene.bodies)
    assert not replace(scene, bodies=weightless).falling_body


def test_without_mujoco_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_choice, "find_spec", lambda _name: None)
    assert not wants_physics(AUTO)
    choice, line = chosen(load_plan(ARM))
    assert (choice.name, choice.plan.physics) == ("kinematic", None)
    assert "not installed" in line


def test_who_follows_the_clock_owns_no_time() -> None:
    assert not wants_physics(AUTO, follows_clock=True)
    choice, line = chosen(load_plan(ARM), follows_clock=True)
    assert (choice.name, choice.plan.physics) == ("kinematic", None)
    assert "use_sim_time" in line


def test_named_and_made_ones_are_taken_as_they_are() -> None:
    plan = load_plan(ARM)
    refuse = pytest.fail
    made = PendulumBackend()
    assert choose(plan, made, inform=refuse) == (plan, made, "PendulumBackend", False)
    choice = choose(plan, "null", inform=refuse)
    assert (choice.name, choice.plan.physics, choice.replaceable) == ("null", None, False)
    with pytest.raises(BackendError, match="hydraulic"):
        choose(plan, "hydraulic", inform=refuse)


class Broken(PendulumBackend):
    """Refuses to open."""

    def open(self, context: BackendContext) -> None:
        raise BackendError(f"{context.plan.asset} cannot be built")


@pytest.mark.dds
@pytest.mark.parametrize("name", ["mujoco", "null"])
def test_one_that_cannot_be_opened_is_replaced_where_it_was_not_asked_for(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    from usd_ros_bridge.ros import bridge as bridge_module

    monkeypatch.setattr(
        bridge_module, "choose", lambda plan, *_, **__: Choice(plan, Broken(), name, name == "mujoco")
    )
    told: list[tuple[str, str]] = []
    bridge = Bridge(load_plan(ARM), AUTO, report=lambda *report: told.append(report), inform=lambda *_: None)
    if name == "null":
        with pytest.raises(BackendError, match="cannot be built"):
            bridge.open()
        return
    with bridge:
        assert bridge.status().backend == "kinematic"
        assert type(bridge.parts.runtime.backend) is type(load_backend("kinematic"))
        assert bridge.time is None
    (message,) = [message for kind, message in told if kind == "backend.replaced"]
    assert "cannot be built" in message


def test_a_shard_is_not_simulated() -> None:
    assert not wants_physics(AUTO, shard="1/2")
    choice, line = chosen(load_plan(ARM, plan_options=PlanOptions(shard="2/2")))
    assert (choice.name, choice.plan.physics) == ("kinematic", None)
    assert line == "backend kinematic: shard 2/2: a fleet is simulated in one process"
    pytest.importorskip("mujoco", reason="MuJoCo is not installed: make setup")
    assert wants_physics(AUTO, shard="1/1")
    assert chosen(load_plan(ARM, plan_options=PlanOptions(shard="1/1")))[0].name == "mujoco"
