"""The recipe of docs/reference/plugins.md: a controller of another distribution is a record, a row, and a group."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pxr import Plug, Usd

from builders.groups import NotingPort
from foreign_plugins import SCALED_ARM, install_plugin
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.backends.kinematic import KinematicBackend
from usd_ros_bridge.model.controller_schemas import CONTROLLERS
from usd_ros_bridge.model.goals import GripperGoal, GripperState
from usd_ros_bridge.model.message_types import GRIPPER_COMMAND
from usd_ros_bridge.model.plan import BridgePlan, ControllerPlan
from usd_ros_bridge.model.state import ArraySample
from usd_ros_bridge.reporting import OnceReporter
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.usd.schemas import plugin_schema_folders, register_plugin_schemas

MODULE = """
from dataclasses import dataclass

import numpy as np

from usd_ros_bridge.controllers.controller_group import PassiveGroup
from usd_ros_bridge.model.controller_schemas import ControllerSchema, ControllerPort
from usd_ros_bridge.model.records import ControllerRecord, attribute
from usd_ros_bridge.ranges import NumberRange


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledPositionRecord(ControllerRecord):
    subscriber: tuple[str, ...] | None = attribute("scaled:subscriber", "rel")
    joints: tuple[str, ...] | None = attribute("scaled:joints", "rel")
    scale: float | None = attribute("scaled:scale", "double", 2.0)


class ScaledPositions(PassiveGroup):
    dynamic = frozenset({"scale"})

    def __init__(self, context, plans):
        super().__init__(context, plans)
        self.scale = [plan.parameters["scale"] for plan in plans]
        self.pending = {}

    @property
    def busy(self):
        return bool(self.pending)

    def set_parameter(self, row, name, value):
        self.scale[row] = value

    def receive(self, row, sample, *, time_ns):
        self.pending[row] = self.scale[row] * np.asarray(sample.values)

    def command(self, time_ns, state, commands):
        for row, values in self.pending.items():
            commands.joint_position[list(self.plans[row].dofs)] = values
        self.pending.clear()


ROW = ControllerSchema(
    record=ScaledPositionRecord,
    group="MODULE_NAME:ScaledPositions",
    ports=(ControllerPort(field="subscriber", kind="topic", role="subscription",
                types=frozenset({"std_msgs/msg/Float64MultiArray"})),),
    joints=("joints",),
    ranges={"scale": NumberRange(low=0.5, high=4.0)},
)
"""


class Site:
    """A folder of `sys.path` with one plug-in, and its asset."""

    def __init__(self, folder: Path, number: int) -> None:
        # Modules stay imported: each test has its own.
        self.module = f"plugin_scaled_{number}"
        self.schema = f"ScaledPosition{number}API"
        self.folder = folder
        self.asset = folder / "robot.usda"
        self.asset.write_text(SCALED_ARM.replace("SCHEMA", self.schema), encoding="utf-8")

    def install(self, text: str = MODULE, **entries: str) -> None:
        points = entries or {self.schema: f"{self.module}:ROW"}
        modules = {self.module: text.replace("MODULE_NAME", self.module)}
        install_plugin(self.folder, "scaled", entry_points={"controllers": points}, modules=modules)

    def replace(self, old: str, new: str) -> None:
        text = self.asset.read_text(encoding="utf-8")
        assert old in text
        self.asset.write_text(text.replace(old, new), encoding="utf-8")

    def plan(self) -> BridgePlan:
        return load_plan(self.asset)

    def controller(self) -> ControllerPlan:
        (found,) = (each for each in self.plan().controllers if each.schema == self.schema)
        return found

    def faults(self) -> list[tuple[str, str]]:
        return [(each.path, each.message) for each in self.plan().diagnostics if each.code == "4.2.3.plugin"]


_numbers = iter(range(1000))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.syspath_prepend(str(tmp_path))
    return Site(tmp_path, next(_numbers))


def position_after(plan: BridgePlan, values: list[float], **parameters: float) -> Any:
    """Return the joints' positions, rad, after values arrived at the robot's command topic."""
    runtime = Runtime(plan, KinematicBackend()).open()
    try:
        (topic,) = (each for each in plan.topics if each.path == "/robot/command")
        binding = runtime.bind_sink(topic)
        runtime.tick(1_000_000_000)
        for name, value in parameters.items():
            runtime.controllers.set_parameter("/robot/scaled", name, value)
        binding.deliver(ArraySample(values=np.array(values)))
        runtime.tick(1_010_000_000)
        runtime.tick(1_020_000_000)
        return runtime.snapshot.state.joint_position.tolist()
    finally:
        runtime.close()


def test_a_record_a_row_and_a_group_add_a_controller(site: Site) -> None:
    site.install()
    controller = site.controller()
    assert (controller.enabled, controller.joints, controller.parameters) == (True, ("pan",), {"scale": 3.0})
    assert controller.claims == controller.dofs
    assert position_after(site.plan(), [0.25]) == [0.75]
    assert position_after(site.plan(), [0.25], scale=1.0) == [0.25]


def test_nothing_is_imported_for_assets_without_the_schema(site: Site) -> None:
    site.install()
    site.replace(site.schema, "AnotherAPI")
    assert site.plan().controllers == ()
    assert site.schema in CONTROLLERS.names()
    assert site.module not in sys.modules


def test_what_its_row_asks_for_is_checked(site: Site) -> None:
    site.install()
    site.replace("rel scaled:subscriber = </robot/command>", "")
    assert site.controller().reason == "scaled:subscriber names no interface"


def test_its_numbers_have_the_ranges_of_its_row(site: Site) -> None:
    site.install()
    site.replace("scaled:scale = 3", "scaled:scale = 5")
    plan = site.plan()
    (found,) = (each for each in plan.diagnostics if each.code == "4.2.3.parameter")
    assert (found.path, found.attribute, found.remedy) == (
        "/robot/scaled",
        "scaled:scale",
        "author a number: 0.5 to 4",
    )
    assert site.controller().parameters == {"scale": 2.0}
    runtime = Runtime(plan, KinematicBackend()).open()
    try:
        assert runtime.controllers.parameter_range("/robot/scaled", "scale").limits == (0.5, 4.0)
    finally:
        runtime.close()


def test_a_misspelt_property_is_found(site: Site) -> None:
    site.install()
    site.replace("scaled:scale = 3", "scaled:scael = 3")
    (found,) = (each for each in site.plan().diagnostics if each.code == "schema.attribute")
    assert (found.attribute, found.remedy) == ("scaled:scael", "did you mean scaled:scale?")


def test_two_controllers_of_a_joint_are_a_conflict(site: Site) -> None:
    site.install()
    text = site.asset.read_text(encoding="utf-8")
    begin = text.index('    def Scope "scaled"')
    second = text[begin:].replace('"scaled"', '"second"').replace("</robot/command>", "</robot/other>")
    topic = text[text.index('    def Scope "command"') : text.index("    def PhysicsFixedJoint")]
    other = topic.replace('"command"', '"other"')
    site.asset.write_text(text[: text.rindex("}")] + other + second, encoding="utf-8")
    plan = site.plan()
    assert [each.path for each in plan.controllers if each.enabled] == ["/robot/scaled"]
    (found,) = (each for each in plan.diagnostics if each.code == "4.2.3.conflict")
    assert found.message.startswith("'pan' is commanded by /robot/scaled already")


FAULTY = {
    "import no_such_module\n": "no module no_such_module",
    "ROW = 1\n": "it is a int, no ControllerSchema",
    MODULE.replace('joints=("joints",)', 'joints=("wheels",)'): "its record has no field 'wheels'; there are",
    MODULE.replace(
        "MODULE_NAME:ScaledPositions", "ScaledPositions"
    ): "group is 'ScaledPositions', not module:class",
}


@pytest.mark.parametrize("text", FAULTY, ids=["import", "no row", "no field", "no class"])
def test_a_faulty_plug_in_is_a_diagnostic_of_the_prim(site: Site, text: str) -> None:
    site.install(text)
    plan = site.plan()
    ((path, message),) = site.faults()
    assert path == "/robot/scaled"
    assert message.startswith(f"controller '{site.schema}' of scaled 1.0 is disabled: {FAULTY[text]}")
    assert message.endswith("; the controller is left out")
    assert [each.name for each in plan.topics] == ["/robot/command"]
    # Which names are the plug-in's is not known.
    assert not [each for each in plan.diagnostics if each.code == "schema.attribute"]


def test_a_record_of_another_schema_is_a_diagnostic_of_the_prim(site: Site) -> None:
    text = MODULE.replace(
        "import ControllerRecord, attribute", "import ControllerRecord, DiffDriveRecord, attribute"
    )
    text = text.replace("record=ScaledPositionRecord", "record=DiffDriveRecord")
    text = text.replace('field="subscriber"', 'field="odom"').replace('joints=("joints",),', "")
    site.install(text.replace('ranges={"scale": NumberRange(low=0.5, high=4.0)},', ""))
    ((path, message),) = site.faults()
    assert path == "/robot/scaled"
    assert f"the record of controller '{site.schema}' is that of 'RosControlDiffDriveAPI'" in message


def test_a_planner_that_fails_is_a_diagnostic_of_the_prim(site: Site) -> None:
    row = '    planner="MODULE_NAME:Planner",\n    joints=("joints",),'
    planner = "\n\nclass Planner:\n    def __init__(self, scope, name, record):\n        raise OSError('no licence')\n"
    site.install(MODULE.replace('    joints=("joints",),', row) + planner)
    ((path, message),) = site.faults()
    assert path == "/robot/scaled"
    assert f"controller '{site.schema}' of scaled 1.0 failed: OSError: no licence" in message


def test_a_group_that_fails_leaves_the_other_controllers(site: Site) -> None:
    text = MODULE.replace("super().__init__(context, plans)", "raise OSError('no licence')")
    site.install(text)
    reports: dict[str, str] = {}
    reporter = OnceReporter(reports.__setitem__)
    runtime = Runtime(site.plan(), KinematicBackend(), reporter=reporter).open()
    try:
        (status,) = (each for each in runtime.controllers.status() if each.schema == site.schema)
        assert not status.active
        assert status.reason == f"controller '{site.schema}' of scaled 1.0 failed: OSError: no licence"
        assert list(reports.values()) == [f"/robot/scaled: {status.reason}"]
        assert runtime.tick(1_000_000_000)
    finally:
        runtime.close()


def test_an_interface_type_implies_a_controller(site: Site) -> None:
    text = MODULE.replace("std_msgs/msg/Float64MultiArray", "std_msgs/msg/Int32MultiArray")
    text = text.replace("record=ScaledPositionRecord,", "").replace("ranges=", "commands='position', ranges=")
    text = text[: text.index("    ports=")] + "    commands='position',\n)\n"
    site.install(
        text.replace('plan.parameters["scale"]', "2.0"), **{"example_msgs.msg.Scaled": f"{site.module}:ROW"}
    )
    site.replace("std_msgs/msg/Float64MultiArray", "example_msgs/msg/Scaled")
    (controller,) = site.plan().controllers
    assert (controller.schema, controller.path, controller.implied, controller.joints) == (
        "example_msgs/msg/Scaled",
        "/robot/command",
        True,
        ("pan",),
    )
    assert position_after(site.plan(), [0.25]) == [0.5]


@pytest.mark.parametrize(
    "name", ["geometry_msgs.msg.Twist", "std_msgs.msg.Float64MultiArray", "RosControlExternalAPI"]
)
def test_what_is_built_in_cannot_be_taken(site: Site, name: str) -> None:
    site.install(**{name: f"{site.module}:ROW"})
    assert not CONTROLLERS.is_foreign(name.replace(".", "/"))
    assert [each.conflict for each in CONTROLLERS.entries() if each.origin == "scaled"] == [
        "the name is built in"
    ]


def test_its_schema_is_registered_with_openusd(site: Site) -> None:
    """As a package: a folder `schema` is found without importing anything."""
    package = site.folder / site.module
    (package / "schema").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError\n", encoding="utf-8")
    (package / "schema" / "generatedSchema.usda").write_text("#usda 1.0\n", encoding="utf-8")
    (package / "schema" / "plugInfo.json").write_text(
        json.dumps(
            {
                "Plugins": [
                    {"Info": {}, "Name": site.module, "ResourcePath": ".", "Root": ".", "Type": "resource"}
                ]
            }
        ),
        encoding="utf-8",
    )
    points = {site.schema: f"{site.module}.rows:ROW"}
    install_plugin(site.folder, "scaled", entry_points={"controllers": points}, modules={})
    assert plugin_schema_folders() == (package / "schema",)
    assert register_plugin_schemas() == (package / "schema",)
    assert Plug.Registry().GetPluginWithName(site.module).isResource
    assert site.module not in sys.modules
    assert Usd.Stage.Open(str(site.asset)).GetPrimAtPath("/robot/scaled").GetAppliedSchemas() == []


GOALS = '''
from dataclasses import dataclass

import numpy as np

from usd_ros_bridge import (
    ControllerPort, ControllerRecord, ControllerSchema, GripperState, PassiveGroup, attribute
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JumpRecord(ControllerRecord):
    server: tuple[str, ...] | None = attribute("scaled:subscriber", "rel")
    joints: tuple[str, ...] | None = attribute("scaled:joints", "rel")


class Jumps(PassiveGroup):
    """Joints jump to where a goal wants them; the goal ends when they are there."""

    def __init__(self, context, plans):
        super().__init__(context, plans)
        self.goals = {}

    @property
    def busy(self):
        return bool(self.goals)

    def check(self, row, goal, *, time_ns):
        return "" if goal.position.size == 1 else "one position is needed"

    def start(self, row, goal, port, *, time_ns, state):
        self.goals[row] = (goal, port)

    def cancel(self, row, port):
        self.end(row, "canceled", np.zeros(1))

    def command(self, time_ns, state, commands):
        for row, (goal, port) in self.goals.items():
            commands.joint_position[list(self.plans[row].dofs)] = goal.position

    def observe(self, state):
        for row, (goal, port) in tuple(self.goals.items()):
            position = state.joint_position[list(self.plans[row].dofs)]
            if np.allclose(position, goal.position):
                self.end(row, "succeeded", position)

    def end(self, row, outcome, position):
        _, port = self.goals.pop(row)
        port.finish(outcome, GripperState(
            names=self.plans[row].joints, position=position, velocity=position * 0.0, effort=position * 0.0,
            stalled=False, reached_goal=outcome == "succeeded",
        ))


ROW = ControllerSchema(
    record=JumpRecord,
    group="MODULE_NAME:Jumps",
    ports=(ControllerPort(field="server", kind="action", role="server",
                          types=frozenset({"control_msgs/action/GripperCommand"})),),
    joints=("joints",),
    commands="position",
)
'''


def test_a_controller_follows_goals(site: Site) -> None:
    site.install(GOALS)
    site.replace('"RosTopicAPI"', '"RosActionAPI"')
    site.replace('token ros:topic:role = "subscription"', 'token ros:action:role = "server"')
    site.replace("ros:topic:name", "ros:action:name")
    site.replace(
        'ros:topic:type = "std_msgs/msg/Float64MultiArray"', f'ros:action:type = "{GRIPPER_COMMAND}"'
    )
    assert site.controller().enabled
    runtime = Runtime(site.plan(), KinematicBackend()).open()
    try:
        queue, port = runtime.goal_queue("/robot/command"), NotingPort()
        runtime.tick(1_000_000_000)
        none = np.zeros(0)
        assert (
            queue.check(GripperGoal(names=(), position=none, velocity=none, effort=none))
            == "one position is needed"
        )
        goal = GripperGoal(names=(), position=np.array([0.5]), velocity=none, effort=none)
        assert queue.check(goal) == ""
        queue.start(goal, port)
        runtime.tick(1_010_000_000)
        runtime.tick(1_020_000_000)
        ((outcome, result),) = port.ends
        assert outcome == "succeeded"
        assert isinstance(result, GripperState)
        assert result.position.tolist() == [0.5]
    finally:
        runtime.close()


def test_a_type_of_a_codec_plug_in_may_have_a_controller(site: Site) -> None:
    """Which is not imported for that."""
    name = "example_msgs.msg.Wanted"
    install_plugin(
        site.folder,
        "codec",
        entry_points={"codecs": {name: "plugin_of_a_codec:CODEC"}},
        modules={"plugin_of_a_codec": ""},
    )
    site.install(**{name: f"{site.module}:ROW"})
    assert CONTROLLERS.is_foreign("example_msgs/msg/Wanted")
    assert CONTROLLERS.fault("example_msgs/msg/Wanted") == ""
    assert "plugin_of_a_codec" not in sys.modules
