"""The planner process: its plan is the one that this process would make, and so are its descriptions and errors."""

from __future__ import annotations

import dataclasses
import os
import sys

import pytest

from builders.stages import write_fleet
from planner_jobs import ARM, ASSETS, PLANNED, ROVER, differences, job
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.errors import AssetError, BridgeError, VariantError
from usd_ros_bridge.export.mesh_files import MeshCache
from usd_ros_bridge.export.urdf import UrdfExporter
from usd_ros_bridge.options import PlanOptions, ReadOptions, VariantSelection
from usd_ros_bridge.planner_process import PlannerError, start_planner
from usd_ros_bridge.start_phases import OPENING, PLANNING
from usd_ros_bridge.usd import quiet
from usd_ros_bridge.usd.population import left_out
from usd_ros_bridge.usd.session import DeferredStage, StageSession


@pytest.fixture
def planner():
    with start_planner() as process:
        yield process


@pytest.mark.parametrize("physics", [False, True], ids=["plan", "physics"])
@pytest.mark.parametrize("asset", PLANNED, ids=lambda path: path.stem)
def test_its_plan_is_the_plan_made_here_field_by_field(planner, asset, physics):
    types = pytest.importorskip("usd_ros_bridge.ros.interface_types")
    options, catalog = PlanOptions(isaac_names=True), types.AmentCatalog()
    got = planner.plan(job(asset, plan_options=options, physics=physics, catalog=catalog))
    with quiet():
        made = load_plan(str(asset), plan_options=options, physics=physics, catalog=catalog)
    assert made.diagnostics or asset != ASSETS / "error_wrong_type.usda"
    like = dataclasses.replace(got, stage=None, catalog=None)
    assert list(differences(dataclasses.replace(made, stage=None, catalog=None), like)) == []
    assert isinstance(got.stage, DeferredStage)
    assert got.stage_owned
    assert not got.stage.is_open
    assert got.catalog is catalog


def test_its_phases_are_those_of_a_plan_made_here(planner):
    there, here = [], []
    planner.plan(job(ARM), there.append)
    load_plan(str(ARM), progress=here.append)
    assert there == here == [OPENING, PLANNING]


def test_the_comparison_sees_a_difference():
    plan = load_plan(str(ARM))
    other = dataclasses.replace(plan.robots[0], joints=plan.robots[0].joints[:-1])
    assert list(differences(plan.robots[0], other)) == ["plan.joints: 10 and 9 elements"]


def test_its_descriptions_are_those_made_here(planner, tmp_path):
    got = planner.plan(job(ARM, describes=True, mesh_directory=str(tmp_path / "there")))
    describer = StageSession(got.stage).take_describer()
    assert StageSession(got.stage).take_describer() is None
    received = list(describer.descriptions())
    exporter = UrdfExporter(load_plan(str(ARM), physics=True), meshes=MeshCache(tmp_path / "there"))
    assert [robot for robot, _ in received] == [0]
    assert received[0][1].text == exporter.robot(0).text
    assert received[0][1].diagnostics == exporter.robot(0).diagnostics


def test_a_directory_that_cannot_be_written_costs_the_meshes_alone(planner, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    got = planner.plan(job(ARM, describes=True, mesh_directory=str(tmp_path / "file" / "meshes")))
    ((robot, urdf),) = StageSession(got.stage).take_describer().descriptions()
    assert robot == 0
    assert "<mesh" not in urdf.text
    assert [each for each in urdf.diagnostics if str(tmp_path / "file") in each.message]


@pytest.mark.parametrize(
    ("asset", "read_options", "kind"),
    [
        (ASSETS / "no_such.usda", ReadOptions(), AssetError),
        (ROVER, ReadOptions(max_prims=2), AssetError),
        (
            ROVER,
            ReadOptions(variants=(VariantSelection("/World/rover", "no_such", "choice"),)),
            VariantError,
        ),
    ],
    ids=["file", "limit", "variant"],
)
def test_a_mistake_of_the_caller_is_the_exception_that_it_is_here(planner, asset, read_options, kind):
    with pytest.raises(kind) as here:
        load_plan(str(asset), read_options=read_options)
    with pytest.raises(kind) as there:
        planner.plan(job(asset, read_options=read_options))
    assert type(there.value) is type(here.value)
    assert str(there.value) == str(here.value)


def test_a_process_that_is_gone_says_so(planner):
    planner.close()
    planner.close()
    with pytest.raises(PlannerError):
        planner.plan(job(ARM))


@pytest.mark.process
def test_a_process_that_cannot_be_started_says_so_when_it_is_asked(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with start_planner() as planner, pytest.raises(PlannerError, match="cannot be started"):
        planner.plan(job(ARM))


def test_what_is_no_mistake_of_the_caller_ends_the_process(planner, capfd):
    with pytest.raises(PlannerError, match="ended with status 1"):
        planner.plan(job(ARM, plan_options=None, read_options="nonsense"))


# --- The stage that is opened when it is needed ----------------------------------------------------------------


def test_a_deferred_stage_opens_once_and_tells_before_it_is_used():
    stage = DeferredStage(str(ARM), ReadOptions())
    lock, told = StageSession(stage).lock, []
    StageSession(stage).when_open(lambda: told.append(stage.is_open))
    assert told == []
    opened = StageSession(stage).stage
    assert told == [True]
    assert opened is stage.open()
    assert StageSession(opened).lock is lock
    StageSession(stage).when_open(lambda: told.append("at once"))
    assert told == [True, "at once"]


def test_who_is_forgotten_is_told_nothing():
    stage, told = DeferredStage(str(ARM), ReadOptions()), []
    call = lambda: told.append(1)  # noqa: E731
    stage.when_open(call)
    stage.forget(call)
    stage.forget(call)
    stage.open()
    assert told == []


def test_a_stage_that_is_gone_meanwhile_is_a_bridge_error(tmp_path):
    stage = DeferredStage(str(tmp_path / "gone.usda"), ReadOptions())
    for _ in range(2):
        with pytest.raises(BridgeError, match="no such file"):
            stage.open()
    assert not stage.is_open


def test_what_services_switch_is_known_without_the_stage(planner):
    plan = planner.plan(job(ROVER))
    (service,) = plan.services
    switches = StageSession(plan.stage).switches()
    assert switches.is_switchable(service.path)
    assert not plan.stage.is_open
    done, words = switches.switch(service.path, False)
    assert done, words
    assert plan.stage.is_open


@pytest.mark.process
def test_importing_the_session_loads_no_openusd():
    code = "import sys, usd_ros_bridge.usd.session; sys.exit('pxr' in sys.modules)"
    assert os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", code]) == 0


@pytest.mark.parametrize("options", [{"shard": "2/4"}, {"contexts": ("robot_[13]",)}])
def test_the_stage_of_a_shard_has_its_robots_alone(planner, tmp_path, options):
    asset = write_fleet(tmp_path, robots=6, links=2)
    wanted = PlanOptions(**options)
    got, expected = planner.plan(job(asset, plan_options=wanted)), load_plan(str(asset), plan_options=wanted)
    assert not list(
        differences(dataclasses.replace(expected, stage=None), dataclasses.replace(got, stage=None))
    )
    stage = StageSession(got.stage).stage
    served = {robot.path for robot in got.robots}
    assert left_out(stage) == set(got.contexts) - served
    assert {str(prim.GetPath()) for prim in stage.Traverse()} == {
        str(prim.GetPath()) for prim in expected.stage.Traverse()
    }
