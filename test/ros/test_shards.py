"""Shards that run: robots of other shards are not composed, whatever changes, and what runs goes on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from parameter_client import ParameterClient
from sensor_msgs.msg import JointState

from builders.stages import write_fleet
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.errors import BridgeError, OptionError
from usd_ros_bridge.options import PlanOptions
from usd_ros_bridge.ros.change import coordinator
from usd_ros_bridge.usd import quiet
from usd_ros_bridge.usd.population import left_out

HEAD = """#usda 1.0
( defaultPrim = "World"
  metersPerUnit = 1
  kilogramsPerUnit = 1
  timeCodesPerSecond = 1
  upAxis = "Z" )
"""


class Fleet:
    """A running bridge of a part of a fleet."""

    def __init__(self, harness: Any, start: Any, asset: Path, options: PlanOptions, **more: Any) -> None:
        with quiet():
            plan = load_plan(asset, plan_options=options, physics=more.get("backend") == "mujoco")
        self.harness = harness
        self.running = start(plan, more.pop("backend", "kinematic"), **more)
        self.bridge = self.running.bridge
        self.parameters = ParameterClient(harness)

    def robots(self) -> list[str]:
        return [robot.path for robot in self.bridge.plan.robots]

    def hidden(self) -> list[str]:
        return sorted(left_out(self.bridge.plan.stage))

    def composed(self) -> set[str]:
        """The robots with prims below their roots."""
        paths = [prim.GetPath() for prim in self.bridge.plan.stage.TraverseAll()]
        return {str(path.GetPrefixes()[1]) for path in paths if path.pathElementCount > 2}

    def wait_for_robots(self, *names: str, above: str = "/fleet/robot_") -> None:
        expected = [f"{above}{name}" for name in names]
        self.harness.wait_for(lambda: self.robots() == expected, what=f"{expected}, not {self.robots()}")


@pytest.fixture
def fleet(tmp_path: Path, start: Any, ros_harness: Any) -> Any:
    def run(robots: int = 6, **options: Any) -> Fleet:
        asset = write_fleet(tmp_path, robots=robots, links=2, publish_rate=20.0)
        more = {name: options.pop(name) for name in tuple(options) if name not in ("contexts", "shard")}
        return Fleet(ros_harness, start, asset, PlanOptions(**options), **more)

    return run


def test_shards_change_while_a_bridge_runs(fleet: Any) -> None:
    here = fleet(shard="1/3")
    received: list[Any] = []
    here.harness.node.create_subscription(JointState, "/robot_1/joint_states", received.append, 10)
    here.wait_for_robots("0", "1")
    (before,) = [each for each in here.bridge.node.publishers if each.topic_name == "/robot_1/joint_states"]
    assert here.composed() == {"/fleet/robot_0", "/fleet/robot_1"}
    assert here.parameters.get("shard") == "1/3"

    assert here.parameters.set_together({"shard": "2/2", "contexts": ["robot_[0-3]", "!robot_0"]}) == ""
    here.wait_for_robots("2", "3")
    assert here.composed() == {"/fleet/robot_2", "/fleet/robot_3"}
    assert here.parameters.set_together({"shard": "1/2", "contexts": ["robot_[1-4]"]}) == ""
    here.wait_for_robots("1", "2")
    assert here.parameters.set("shard", "") == ""
    here.wait_for_robots("1", "2", "3", "4")
    (now,) = [each for each in here.bridge.node.publishers if each.topic_name == "/robot_1/joint_states"]
    assert now is not before
    count = len(received)
    here.harness.wait_for(lambda: len(received) > count, what="joint states of robot 1")
    assert here.parameters.set("contexts", [""]) == ""
    here.wait_for_robots("0", "1", "2", "3", "4", "5")
    (same,) = [each for each in here.bridge.node.publishers if each.topic_name == "/robot_1/joint_states"]
    assert same is now
    assert here.hidden() == []


def test_what_is_not_possible_is_refused_with_a_reason(fleet: Any) -> None:
    here = fleet(shard="1/3")
    for name, value, said in (
        ("shard", "4/3", "shard '4/3' is not possible: write K/N"),
        ("shard", "x", "shard 'x' is not possible: write K/N"),
        ("contexts", ["robot_9"], "no robot has the namespace 'robot_9' (did you mean robot_"),
        ("contexts", ["/fleet/{a,b}"], "has braces"),
    ):
        assert said in here.parameters.set(name, value)
        assert here.robots() == ["/fleet/robot_0", "/fleet/robot_1"]


def test_a_refused_change_composes_what_was_composed(fleet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    here = fleet(shard="1/3")
    before = here.hidden()
    with monkeypatch.context() as patch:
        patch.setattr(coordinator, "why_refused", lambda *_: "not today")
        with pytest.raises(BridgeError, match="not today"):
            here.bridge.changes.request(why="a test", options=lambda _: PlanOptions(shard="2/3")).result(60.0)
    assert here.hidden() == before
    assert here.composed() == {"/fleet/robot_0", "/fleet/robot_1"}
    assert here.parameters.set("shard", "2/3") == ""
    here.wait_for_robots("2", "3")


def test_leaving_robots_out_is_no_edit_that_changes_the_plan_again(fleet: Any) -> None:
    here = fleet(shard="1/3")
    reports: list[str] = []
    here.bridge.changes.on_change(lambda report: reports.append(report.why))
    for shard, robots in (("2/3", ("2", "3")), ("3/3", ("4", "5"))):
        assert here.parameters.set("shard", shard) == ""
        here.wait_for_robots(*robots)
    stage = here.bridge.plan.stage
    stage.GetPrimAtPath("/fleet/robot_4").GetAttribute("ros:context:namespace").Set("other")
    here.harness.wait_for(lambda: any("edit" in why for why in reports), what="the edit of the stage")
    here.harness.wait_for(lambda: len(reports) >= 3, what="three changes")
    assert [("edit" in why) for why in reports] == [False, False, True]
    assert here.robots() == ["/fleet/robot_4", "/fleet/robot_5"]
    assert here.bridge.plan.context_namespaces[4] == "other"


def test_a_reload_that_brings_robots_moves_the_shard(fleet: Any, tmp_path: Path) -> None:
    here = fleet(robots=4, shard="2/2")
    here.wait_for_robots("2", "3")
    write_fleet(tmp_path, robots=8, links=2, publish_rate=20.0)
    here.bridge.reload().result(60.0)
    here.wait_for_robots("4", "5", "6", "7")
    assert here.composed() == {f"/fleet/robot_{number}" for number in (4, 5, 6, 7)}
    write_fleet(tmp_path, robots=2, links=3, publish_rate=20.0)
    here.bridge.reload().result(60.0)
    here.wait_for_robots("1")
    assert here.hidden() == ["/fleet/robot_0"]


def test_files_of_other_robots_are_watched(tmp_path: Path, start: Any, ros_harness: Any) -> None:
    pytest.importorskip("watchfiles", reason="watchfiles is not installed: make setup")
    robot = (
        HEAD.replace("World", "robot")
        + """def Xform "robot" ( prepend apiSchemas = ["RosContextAPI"] ) {
        string ros:context:namespace = "%s"
    }\n"""
    )
    for name in ("a", "b"):
        (tmp_path / f"{name}.usda").write_text(robot % name, encoding="utf-8")
    members = "".join(
        f'def Xform "{name}" ( prepend references = @./{name}.usda@ ) {{\n}}\n' for name in ("a", "b")
    )
    asset = tmp_path / "world.usda"
    asset.write_text(HEAD + 'def Xform "World" {\n' + members + "}\n", encoding="utf-8")
    here = Fleet(ros_harness, start, asset, PlanOptions(contexts=("/World/a",)), watch=True)
    assert here.hidden() == ["/World/b"]
    (tmp_path / "b.usda").write_text(robot % "renamed", encoding="utf-8")
    here.harness.wait_for(
        lambda: here.bridge.plan.context_namespaces == ("a", "renamed"), what="the new name"
    )
    assert here.hidden() == ["/World/b"]
    assert here.parameters.set("contexts", ["renamed"]) == ""
    here.wait_for_robots("b", above="/World/")


def test_variants_of_other_robots_may_be_selected(tmp_path: Path, start: Any, ros_harness: Any) -> None:
    asset = tmp_path / "world.usda"
    asset.write_text(
        HEAD
        + """def Xform "World" {
    def Xform "a" ( prepend apiSchemas = ["RosContextAPI"] ) {
        string ros:context:namespace = "a"
    }
    def Xform "b" ( prepend apiSchemas = ["RosContextAPI"]
        variants = { string kind = "one" }
        prepend variantSets = "kind" ) {
        variantSet "kind" = {
            "one" {
                string ros:context:namespace = "b"
            }
            "two" {
                string ros:context:namespace = "changed"
            }
        }
    }
}
""",
        encoding="utf-8",
    )
    here = Fleet(ros_harness, start, asset, PlanOptions(contexts=("/World/a",)))
    assert "has no variant 'three'" in here.parameters.set("variants", ["/World/b:kind=three"])
    assert here.parameters.set("variants", ["/World/b:kind=two"]) == ""
    here.harness.wait_for(lambda: here.bridge.plan.context_namespaces == ("a", "changed"), what="the variant")
    assert here.hidden() == ["/World/b"]
    assert here.parameters.set("contexts", ["changed"]) == ""
    here.wait_for_robots("b", above="/World/")


def test_entities_are_spawned_beside_chosen_robots(fleet: Any, tmp_path: Path) -> None:
    pytest.importorskip("simulation_interfaces", reason="simulation_interfaces is not installed")
    pytest.importorskip("mujoco", reason="mujoco is not installed")
    from simulation_client import OK, Simulator
    from simulation_interfaces.srv import DeleteEntity, SpawnEntity

    here = fleet(
        contexts=("/fleet/robot_2", "/fleet/robot_3"),
        backend="mujoco",
        backend_options={"gl": "none"},
        start_paused=True,
        spawn_roots=(str(tmp_path),),
    )
    client = Simulator(here.harness)
    response = client.ask(SpawnEntity, name="new", uri="robot.usda", entity_namespace="new")
    assert response.result.result == OK, response.result.error_message
    here.wait_for_robots("fleet/robot_2", "fleet/robot_3", "new", above="/")
    assert here.hidden() == [f"/fleet/robot_{number}" for number in (0, 1, 4, 5)]
    assert here.parameters.set("contexts", ["/fleet/robot_4", "/fleet/robot_5"]) == ""
    here.wait_for_robots("fleet/robot_4", "fleet/robot_5", "new", above="/")
    assert client.ask(DeleteEntity, entity="new").result.result == OK
    here.wait_for_robots("4", "5")
    assert set(client.entities(filter="^[^/]+$")) == {"robot_4", "robot_5"}


def test_a_shard_without_robots_runs(fleet: Any) -> None:
    here = fleet(robots=2, shard="1/3")
    assert here.robots() == []
    assert [each.code for each in here.bridge.plan.diagnostics] == ["2.1.shard"]
    assert here.parameters.set("shard", "2/2") == ""
    here.wait_for_robots("1")


def test_a_bridge_that_simulates_is_no_shard(fleet: Any) -> None:
    pytest.importorskip("mujoco", reason="mujoco is not installed")
    says = "owns time.*in one process"
    with pytest.raises(OptionError, match=f"^shard 1/3: the backend MujocoBackend {says}"):
        fleet(shard="1/3", backend="mujoco", backend_options={"gl": "none"})
    here = fleet(shard="1/1", backend="mujoco", backend_options={"gl": "none"})
    refusal = here.parameters.set("shard", "2/3")
    assert re.search(says, refusal), refusal
    assert here.robots() == [f"/fleet/robot_{number}" for number in range(6)]
    assert here.parameters.set("contexts", ["/fleet/robot_2"]) == ""
    here.wait_for_robots("2")
