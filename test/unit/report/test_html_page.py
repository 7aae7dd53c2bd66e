"""The page, read by a strict parser of HTML: all sections, nothing that is loaded, nothing that an asset can run."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from nasty_assets import MARKUP, write_nasty_asset
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import VariantSet
from usd_ros_bridge.planning.diff import difference
from usd_ros_bridge.report.html_page import AssetReport, write_page

pytestmark = pytest.mark.app

html5lib = pytest.importorskip("html5lib", reason="html5lib is not installed: make setup-all")
ASSETS = Path(__file__).parents[2] / "assets"
SCRIPTS = ["application/json", "model/gltf-binary", None]
LOADING = ("src", "srcset", "data", "poster", "background", "action", "formaction")


class ReportPage:
    """A page as a browser has it. An error of its markup raises."""

    def __init__(self, text: str) -> None:
        parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
        self.root = parser.parse(text)
        self.elements = list(self.root.iter())

    def all(self, tag: str) -> list:
        # Those of a drawing are in the namespace of SVG.
        return [each for each in self.elements if str(each.tag).rpartition("}")[2] == tag]

    def by_id(self, name: str):
        (found,) = [each for each in self.elements if each.get("id") == name]
        return found

    def text(self, name: str) -> str:
        return "".join(self.by_id(name).itertext())

    def check(self) -> None:
        """Nothing is loaded, and no script runs but the page's own."""
        assert [each.get("type") for each in self.all("script")] in (
            SCRIPTS,
            SCRIPTS[:1] + SCRIPTS[2:],
            SCRIPTS[2:],
        )
        assert len(self.all("style")) == 1
        assert not [
            each for tag in ("img", "iframe", "link", "object", "embed", "base") for each in self.all(tag)
        ]
        for each in self.elements:
            for name, value in each.attrib.items():
                assert not name.lower().startswith("on")
                assert name.lower() not in LOADING
                if name == "href":
                    assert value.startswith(("#", "https://github.com/usd-ros-bridge/"))


def page_of(plan: BridgePlan, **fields) -> ReportPage:
    report = AssetReport(plan=plan, version="1.2.3", **{"label": plan.asset, **fields})
    return ReportPage(write_page(report))


def test_the_page_of_the_arm_has_everything(arm: BridgePlan) -> None:
    page = page_of(
        arm,
        layers=("arm.usda",),
        variant_sets=(VariantSet(prim_path="/arm", name="gripper", variants=("a", "b"), selected="b"),),
    )
    page.check()
    sections = [each.get("id") for each in page.all("section")]
    assert sections == [
        "findings",
        "view",
        "frames",
        "joints",
        "interfaces",
        "controllers",
        "sensors",
        "physics",
        "composition",
    ]
    assert [each.get("href") for each in page.all("a")][: len(sections)] == [f"#{each}" for each in sections]
    for robot in arm.robots:
        for frame in robot.frames:
            assert frame.id in page.text("frames")
        for joint in robot.joints:
            assert joint.name in page.text("joints")
    for each in (*arm.topics, *arm.actions):
        assert each.name in page.text("interfaces")
        assert each.type in page.text("interfaces")
    for controller in arm.controllers:
        assert controller.schema in page.text("controllers")
    assert "stiffness 4000, damping 150, at most 150" in page.text("joints")
    assert "1 * left_finger_joint" in page.text("joints")
    assert "15.41 kg" in page.text("physics")
    assert "33 of 45 pairs of bodies" in page.text("physics")
    assert "gripper" in page.text("composition")
    assert "arm.usda" in page.text("composition")


def test_the_page_of_the_rover_has_its_sensors_and_services(rover: BridgePlan) -> None:
    page = page_of(rover)
    page.check()
    assert rover.physics is not None
    for sensor in rover.physics.sensors:
        assert sensor.path in page.text("sensors")
    assert "range_max" in page.text("sensors")
    assert "reliable, volatile, keep_last 5" in page.text("interfaces")
    assert "service server" in page.text("interfaces")
    assert "RosControlDiffDriveAPI" in page.text("controllers")


def test_the_policy_allows_the_own_script_and_style_alone(arm: BridgePlan) -> None:
    page = page_of(arm)
    (policy,) = [each.get("content") for each in page.all("meta") if each.get("http-equiv")]
    allowed = dict(each.strip().split(" ", 1) for each in policy.split(";"))
    assert allowed["default-src"] == "'none'"
    script = page.all("script")[-1].text
    (style,) = (each.text for each in page.all("style"))
    for name, content in (("script-src", script), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert allowed[name] == f"'sha256-{digest}'"
    assert not [each for each in page.elements if each.get("style")]


def test_findings_have_severity_code_place_remedy_and_a_link(arm: BridgePlan, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = Diagnostic(
        code="1.3.solver", severity="warning", path="/arm/x", attribute="mjc:y", message="not simulated: y",
        remedy="leave it out", layer=f"{tmp_path}/arm.usda", line=12,
    )  # fmt: skip
    page = page_of(replace(arm, diagnostics=(found,)))
    page.check()
    shown = page.text("findings")
    for part in ("warning", "1.3.solver", "/arm/x.mjc:y", "not simulated: y", "leave it out", "arm.usda:12"):
        assert part in shown
    assert str(tmp_path) not in shown
    assert any((each.get("href") or "").endswith("diagnostics.md#physics-13") for each in page.all("a"))
    assert "/arm/x.mjc:y: not simulated: y" in page.text("physics")


def test_differences_name_old_and_new_values(arm: BridgePlan) -> None:
    topic = arm.topics[0]
    changed = replace(
        arm, topics=(replace(topic, publish_rate=20.0), *arm.topics[1:]), actions=arm.actions[1:]
    )
    page = page_of(changed, old_label="old.usda", difference=difference(arm, changed))
    page.check()
    shown = page.text("differences")
    assert "From old.usda" in shown
    assert "0 added, 1 removed, 2 changed" in shown
    assert "publish_rate: 100 → 20" in shown
    assert arm.actions[0].name in shown


def test_pairs_that_groups_and_colliders_filter_do_not_collide(arm: BridgePlan) -> None:
    scene = arm.physics
    assert scene is not None
    grouped = replace(
        scene,
        colliders=tuple(replace(each, group=0) for each in scene.colliders),
        groups=("/group",),
        apart_groups=((0, 0),),
    )
    shown = page_of(replace(arm, physics=grouped)).text("physics")
    assert "0 of 45 pairs of bodies" in shown
    assert "0 of colliders, 1 of groups" in shown
    filtered = replace(scene, apart_colliders=tuple(combinations(range(len(scene.colliders)), 2)))
    assert "0 of 45 pairs of bodies" in page_of(replace(arm, physics=filtered)).text("physics")


def test_a_page_without_a_3d_view_has_no_data(arm: BridgePlan) -> None:
    text = write_page(AssetReport(plan=arm, label="arm", version="1"), max_mesh_bytes=0)
    page = ReportPage(text)
    page.check()
    assert "view" not in [each.get("id") for each in page.all("section")]
    assert len(text) < 120_000


def test_the_page_is_small(arm: BridgePlan, rover: BridgePlan) -> None:
    for plan in (arm, rover):
        assert len(write_page(AssetReport(plan=plan, label="x", version="1"))) < 500_000


def test_an_asset_whose_texts_are_markup_is_shown_and_runs_nothing(tmp_path: Path) -> None:
    asset = write_nasty_asset(tmp_path)
    plan = load_plan(asset, physics=True)
    assert len(plan.diagnostics) >= 3
    page = page_of(plan, layers=(str(asset),))
    page.check()
    assert "</script><script>" in page.text("findings")
    assert asset.name in "".join(page.all("h1")[0].itertext())


@pytest.mark.random
@pytest.mark.timeout(900)
@settings(max_examples=examples(25), deadline=None)
@given(value=st.text(st.characters(), min_size=1, max_size=20) | st.just(MARKUP), row=st.integers(0, 4))
def test_whatever_the_texts_of_a_plan_are_nothing_runs(rover: BridgePlan, value: str, row: int) -> None:
    robot = rover.robots[0]
    frames = tuple(replace(each, id=f"{value}{index}") for index, each in enumerate(robot.frames))
    joints = tuple(replace(each, name=value, path=value) for each in robot.joints)
    plan = replace(
        rover,
        asset=value,
        robots=(replace(robot, frames=frames, joints=joints, path=value, namespace=value),),
        topics=tuple(
            replace(each, name=value, type=value, frame_id=value, path=value) for each in rover.topics
        ),
        controllers=tuple(
            replace(each, path=value, schema=value, parameters={value: value}) for each in rover.controllers
        ),
        diagnostics=(
            Diagnostic(
                code=value, severity="error", path=value, message=value, remedy=value, layer=value, line=row
            ),
        ),
    )
    page = page_of(
        plan,
        layers=(value,),
        variant_sets=(VariantSet(prim_path=value, name=value, variants=(value,), selected=value),),
        old_label=value,
        difference=difference(rover, plan),
    )
    page.check()
    scene = json.loads(page.by_id("scene-settings").text)
    assert [each["id"] for each in scene["frames"]] == [frame.id for frame in frames]


@pytest.mark.parametrize("asset", sorted(ASSETS.glob("*.usda")), ids=lambda path: path.stem)
def test_every_asset_of_the_tests_has_a_valid_page(asset: Path) -> None:
    plan = load_plan(asset, physics=True)
    page = page_of(plan)
    page.check()
    assert len(page.all("svg")) == sum(bool(robot.frames) for robot in plan.robots)
    for diagnostic in plan.diagnostics:
        assert diagnostic.code in page.text("findings")
