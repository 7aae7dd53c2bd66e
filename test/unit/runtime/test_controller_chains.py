"""Chained controllers: one commands the references of another, as in ros2_control."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from builders.samples import twist_sample
from foreign_plugins import install_plugin
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.backends.kinematic import KinematicBackend
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import ArraySample
from usd_ros_bridge.runtime.runtime import Runtime

ROVER = Path(__file__).parents[3] / "examples" / "rover" / "rover.usda"

MODULE = '''
from dataclasses import dataclass

import numpy as np

from usd_ros_bridge.controllers.controller_group import PassiveGroup
from usd_ros_bridge.model.controller_schemas import ControllerSchema, ControllerPort
from usd_ros_bridge.model.records import ControllerRecord, attribute

NAMES = ("linear/velocity", "angular/velocity")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainRecord(ControllerRecord):
    subscriber: tuple[str, ...] | None = attribute("chain_test:subscriber", "rel")
    drive: tuple[str, ...] | None = attribute("chain_test:drive", "rel")


class Chains(PassiveGroup):
    """Command what arrives to the drive; a number beyond 100 is a fault."""

    def __init__(self, context, plans):
        super().__init__(context, plans)
        self.slots = context.references.slots([plan.chained for plan in plans], NAMES)
        self.wanted = {}

    def receive(self, row, sample, *, time_ns):
        self.wanted[row] = np.asarray(sample.values)

    @property
    def busy(self):
        return bool(self.wanted)

    def command(self, time_ns, state, commands):
        for row, values in self.wanted.items():
            if abs(values[0]) > 100.0:
                raise ValueError("too fast")
            self.context.references.write(self.slots[row], values)
        self.wanted.clear()


ROW = ControllerSchema(
    record=ChainRecord,
    group="plugin_chain_test:Chains",
    ports=(ControllerPort(field="subscriber", kind="topic", role="subscription",
                types=frozenset({"std_msgs/msg/Float64MultiArray"})),),
    chain="drive",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRecord(ControllerRecord):
    drive: tuple[str, ...] | None = attribute("chain_link:drive", "rel")


LINK = ControllerSchema(record=LinkRecord, group="plugin_chain_test:Chains", chain="drive", references=NAMES)
'''
ASSET = f"""#usda 1.0
(
    defaultPrim = "rover"
    metersPerUnit = 1
    kilogramsPerUnit = 1
    timeCodesPerSecond = 1
    upAxis = "Z"
)

def Xform "rover" (
    prepend references = @{ROVER}@
)
{{
    def Scope "numbers" (
        prepend apiSchemas = ["RosTopicAPI"]
    )
    {{
        token ros:topic:role = "subscription"
        string ros:topic:name = "numbers"
        string ros:topic:type = "std_msgs/msg/Float64MultiArray"
    }}

    def Scope "chain" (
        prepend apiSchemas = ["ChainTestAPI"]
    )
    {{
        rel chain_test:subscriber = </rover/numbers>
        rel chain_test:drive = <DRIVE>
    }}
}}
"""


@pytest.fixture(scope="module", autouse=True)
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("site")
    points = {
        "controllers": {"ChainTestAPI": "plugin_chain_test:ROW", "ChainLinkAPI": "plugin_chain_test:LINK"}
    }
    install_plugin(folder, "chain-test", entry_points=points, modules={"plugin_chain_test": MODULE})
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield


def drive_path() -> str:
    (drive,) = (each for each in load_plan(ROVER).controllers if each.schema == "RosControlDiffDriveAPI")
    return drive.path


def plan_of(tmp_path: Path, *, drive: str = "", extra: str = "") -> BridgePlan:
    path = tmp_path / "chained.usda"
    text = ASSET.replace("DRIVE", drive or drive_path())
    path.write_text(text[: text.rindex("}")] + extra + "}\n", encoding="utf-8")
    return load_plan(path)


class Run:
    """The rover with a chained controller, ticked at 100 Hz."""

    def __init__(self, plan: BridgePlan) -> None:
        self.plan = plan
        self.runtime = Runtime(plan, KinematicBackend()).open()
        self.drive = next(each for each in plan.controllers if each.schema == "RosControlDiffDriveAPI")
        self.now = 0
        self.sinks = {
            topic.path: self.runtime.bind_sink(topic) for topic in plan.topics if topic.role == "subscription"
        }
        self.tick()

    def tick(self, count: int = 1) -> float:
        """Return the speed of the base that the wheels make, m/s."""
        for _ in range(count):
            self.now += 10_000_000
            self.runtime.tick(self.now)
        velocity = self.runtime.snapshot.state.joint_velocity[list(self.drive.dofs)]
        return float(np.abs(velocity).mean() * self.drive.parameters["wheel_radius"])

    def numbers(self, linear: float, angular: float = 0.0) -> None:
        self.sinks["/rover/numbers"].deliver(ArraySample(values=np.array([linear, angular])))

    def cmd_vel(self, linear: float) -> None:
        path = next(each.path for each in self.plan.topics if each.type.endswith("/Twist"))
        self.sinks[path].deliver(twist_sample(linear))

    def switch(self, path: str, active: bool) -> None:
        self.runtime.controllers.switch(*([path], []) if active else ([], [path]))


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    found = Run(plan_of(tmp_path))
    yield found
    found.runtime.close()


def test_the_plan_has_the_chain_and_its_claims(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    (chain,) = (each for each in plan.controllers if each.schema == "ChainTestAPI")
    assert chain.enabled
    assert chain.chained == (drive_path(),)
    assert chain.claims == (f"references of {drive_path()}",)
    assert not [each for each in plan.diagnostics if each.severity == "error"]


def test_references_are_followed_in_the_same_tick(run: Run) -> None:
    run.numbers(0.3)
    assert run.tick() > 0.0
    assert run.tick(100) == pytest.approx(0.3)
    # They hold: no time-out of the topic counts.
    assert run.tick(200) == pytest.approx(0.3)


def test_the_command_topic_is_silent_meanwhile(run: Run) -> None:
    run.numbers(0.3)
    run.tick(100)
    run.cmd_vel(-0.2)
    assert run.tick(20) == pytest.approx(0.3)


def test_switched_off_it_gives_the_drive_back(run: Run) -> None:
    run.numbers(0.3)
    run.tick(100)
    run.switch("/rover/chain", False)
    assert run.tick(100) == 0.0
    run.cmd_vel(0.2)
    assert run.tick(40) == pytest.approx(0.2)


def test_a_change_that_takes_it_away_gives_the_drive_back(run: Run) -> None:
    """Without a time-out, nothing else would end what it has commanded last."""
    run.runtime.controllers.set_parameter(run.drive.path, "cmd_vel_timeout", 0.0)
    run.numbers(0.3)
    assert run.tick(100) == pytest.approx(0.3)
    others = tuple(each for each in run.plan.controllers if each.path != "/rover/chain")
    _, change = run.runtime.prepare(replace(run.plan, controllers=others))
    change.commit()
    change.cleanup()
    assert run.tick(100) == 0.0


def test_a_fault_gives_the_drive_back(run: Run) -> None:
    run.numbers(0.3)
    run.tick(100)
    run.numbers(1000.0)
    assert run.tick(100) == 0.0


def test_a_reset_forgets_references(run: Run) -> None:
    run.numbers(0.3)
    run.tick(100)
    run.runtime.controllers.reset()
    run.cmd_vel(0.2)
    assert run.tick(40) == pytest.approx(0.2)


def test_two_that_command_one_drive_are_a_conflict(tmp_path: Path) -> None:
    text = ASSET[ASSET.index('    def Scope "numbers"') : ASSET.rindex("}")].replace("DRIVE", drive_path())
    second = text.replace('"numbers"', '"others"').replace("/rover/numbers", "/rover/others")
    plan = plan_of(tmp_path, extra=second.replace('"chain"', '"second"'))
    (found,) = (each for each in plan.diagnostics if each.code == "4.2.3.conflict")
    assert found.path == "/rover/second"
    assert found.message.startswith(f"'references of {drive_path()}' is commanded by /rover/chain already")


def test_what_has_no_references_cannot_be_commanded(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, drive="/rover/chain")
    (found,) = (each for each in plan.diagnostics if each.severity == "error")
    assert (found.code, found.path, found.attribute) == ("4.2.3.target", "/rover/chain", "chain_test:drive")
    assert found.message == "'/rover/chain' is no controller with references; the controller stays inactive"
    assert drive_path() in found.remedy


def test_a_chain_to_a_drive_that_cannot_work_stays_inactive(tmp_path: Path) -> None:
    path = drive_path().removeprefix("/rover/").split("/")
    over = "".join(f'over "{name}" {{\n' for name in path)
    over += "double ros:diff_drive:wheel_radius = -1\n" + "}\n" * len(path)
    plan = plan_of(tmp_path, extra=over)
    (chain,) = (each for each in plan.controllers if each.schema == "ChainTestAPI")
    assert not chain.switchable
    assert chain.reason.startswith(
        f"the controller '{drive_path()}' that it commands cannot work: ros:diff_drive"
    )


def test_a_chain_in_a_circle_stays_inactive(tmp_path: Path) -> None:
    links = "".join(
        f'''def Scope "{name}" (prepend apiSchemas = ["ChainLinkAPI"])
{{
    rel chain_link:drive = </rover/{other}>
}}
'''
        for name, other in (("first", "second"), ("second", "first"))
    )
    plan = plan_of(tmp_path, extra=links)
    reasons = {each.path: each.reason for each in plan.controllers if each.schema == "ChainLinkAPI"}
    assert reasons == {
        f"/rover/{name}": f"its chain leads back to '/rover/{name}'" for name in ("first", "second")
    }
    faults = [(each.code, each.path) for each in plan.diagnostics if each.severity == "error"]
    assert faults == [("4.2.3.target", "/rover/first"), ("4.2.3.target", "/rover/second")]
