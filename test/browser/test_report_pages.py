"""Pages of `report` in a browser without a network: they load nothing, report no error, and show the robot."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nasty_assets import write_nasty_asset
from page_runs import ARM, EXAMPLES
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.planning.diff import difference
from usd_ros_bridge.report.html_page import AssetReport, write_page

WAIT_MS = 90_000.0
SIZE = {"width": 1100, "height": 800}
# A browser without a graphics card takes its time, and a test waits for it more than once.
pytestmark = pytest.mark.timeout(400)
EXPECTED = re.compile(r"GPU stall due to ReadPixels")
"""What this browser says of pictures that a test takes."""

DRAWN = """after => new Promise(done => {
    const canvas = document.getElementById('scene');
    const check = () => { if (Number(canvas.dataset.drawn || 0) > after) done(); };
    new MutationObserver(check).observe(canvas, { attributes: true });
    check();
})"""
"""Waits until the 3D view was drawn more often than so many times."""


class OpenReport:
    """A page in a tab, with all that it asked for and said."""

    def __init__(self, tab: Any) -> None:
        self.tab = tab
        self.requests: list[str] = []
        self.messages: list[str] = []
        tab.set_default_timeout(WAIT_MS)
        tab.on("request", lambda request: self.requests.append(request.url))
        tab.on("pageerror", lambda error: self.messages.append(str(error)))
        tab.on("console", lambda message: self.messages.append(message.text))

    def drawn(self) -> int:
        """How often the 3D view was drawn."""
        return int(self.tab.evaluate("Number(document.getElementById('scene').dataset.drawn || 0)"))

    def wait_for_drawing(self, after: int = 0) -> None:
        # The page's policy forbids what playwright's own waiting for a condition does.
        self.tab.evaluate(DRAWN, after)

    def picture(self) -> np.ndarray:
        """The 3D view as (H, W, 3)."""
        from PIL import Image

        data = self.tab.locator("#scene").screenshot()
        return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)

    def change(self, action: Callable[[], object]) -> np.ndarray:
        """Do something that draws the 3D view anew. Return the picture."""
        before = self.drawn()
        action()
        self.wait_for_drawing(before)
        return self.picture()


@pytest.fixture
def open_report(chromium: Any, tmp_path: Path) -> Iterator[Callable[..., OpenReport]]:
    """`open_report(plan)`: its page from a file. At the end it asked for nothing else, and the console is empty."""
    opened: list[tuple[Any, OpenReport, str]] = []

    def run(plan: BridgePlan, *, javascript: bool = True, scheme: str = "light", **fields: Any) -> OpenReport:
        file = tmp_path / f"report_{len(opened)}.html"
        report = AssetReport(plan=plan, label=Path(plan.asset).name, version="1", **fields)
        file.write_text(write_page(report), encoding="utf-8")
        context = chromium.new_context(
            viewport=SIZE,
            offline=True,
            color_scheme=scheme,
            java_script_enabled=javascript,
            accept_downloads=True,
        )
        page = OpenReport(context.new_page())
        opened.append((context, page, file.as_uri()))
        page.tab.goto(file.as_uri())
        if javascript:
            page.wait_for_drawing()
        return page

    yield run
    for context, page, uri in opened:
        context.close()
        assert [
            each for each in page.requests if each != uri and not each.startswith(("data:", "blob:"))
        ] == []
        assert [each for each in page.messages if not EXPECTED.search(each)] == []


@pytest.fixture(scope="module")
def rover() -> BridgePlan:
    return load_plan(EXAMPLES / "rover" / "rover.usda", physics=True)


def orange(picture: np.ndarray) -> int:
    """How many pixels have the colour of the rover's hull."""
    red, green, blue = (picture[..., row] for row in range(3))
    return int(((red > 110) & (red > green + 25) & (green > blue + 25)).sum())


def differing(first: np.ndarray, second: np.ndarray) -> int:
    return int((np.abs(first - second).max(axis=-1) > 40).sum())


def test_the_rover_is_seen_turned_and_hidden(open_report, rover: BridgePlan) -> None:
    page = open_report(rover)
    seen = page.picture()
    assert orange(seen) > 5000
    corner = seen[5, 5]
    assert int((np.abs(seen - corner).max(axis=-1) > 30).sum()) > 20_000

    def turn() -> None:
        box = page.tab.locator("#scene").bounding_box()
        page.tab.mouse.move(box["x"] + 200, box["y"] + 100)
        page.tab.mouse.down()
        page.tab.mouse.move(box["x"] + 400, box["y"] + 130)
        page.tab.mouse.up()

    page.tab.locator("#scene").scroll_into_view_if_needed()
    turned = page.change(turn)
    assert orange(turned) > 3000
    assert differing(seen, turned) > 5000
    near = page.change(lambda: page.tab.mouse.wheel(0, -400))
    assert orange(near) > 1.1 * orange(turned)
    again = page.change(lambda: page.tab.locator("#scene-fit").click())
    assert differing(seen, again) < 200
    hidden = page.change(lambda: page.tab.get_by_label("meshes").uncheck())
    assert orange(hidden) < orange(seen) / 20


def test_axes_names_and_collision_shapes_are_switched(open_report, rover: BridgePlan) -> None:
    page = open_report(rover)
    seen = page.picture()
    bare = page.change(lambda: page.tab.get_by_label("frame axes").uncheck())
    assert 200 < differing(seen, bare) < 20_000
    shapes = page.change(lambda: page.tab.get_by_label("collision shapes").check())
    assert differing(bare, shapes) > 5000
    page.change(lambda: page.tab.get_by_label("frame names").check())
    names = page.tab.locator("#scene-labels span:visible").all_inner_texts()
    assert set(names) == {frame.id for frame in rover.robots[0].frames}


def test_a_click_on_a_drawn_frame_marks_it_in_the_3d_view(open_report, rover: BridgePlan) -> None:
    page = open_report(rover)
    drawn = page.tab.locator("svg [data-frame]")
    assert {each.split(" ", 1)[1] for each in drawn.evaluate_all("all => all.map(e => e.dataset.frame)")} == {
        frame.id for frame in rover.robots[0].frames
    }
    page.change(lambda: page.tab.locator("svg [data-frame='0 lidar_link']").click())
    assert page.tab.locator("#scene-labels span.chosen").all_inner_texts() == ["lidar_link"]
    page.change(lambda: page.tab.locator("svg [data-frame='0 lidar_link']").press("Enter"))
    assert page.tab.locator("#scene-labels span.chosen").count() == 0


def test_a_click_on_a_mesh_shows_its_prim(open_report, rover: BridgePlan) -> None:
    page = open_report(rover)
    red, green, blue = (page.picture()[..., row] for row in range(3))
    rows, columns = np.nonzero((red > 110) & (red > green + 25) & (green > blue + 25))
    # A pixel of the orange hull that has only such pixels beside it.
    seen = {*zip(rows.tolist(), columns.tolist(), strict=True)}
    row, column = next(
        at for at in seen if {(at[0] + i, at[1] + j) for i in (-4, 4) for j in (-4, 4)} <= seen
    )
    canvas, shown = page.tab.locator("#scene"), page.tab.locator("#scene-picked")
    canvas.click(position={"x": column, "y": row})
    assert shown.inner_text() in {each.path for each in rover.physics.visuals}
    assert shown.inner_text().startswith("/rover/")
    canvas.click(position={"x": 4, "y": 4})
    assert shown.inner_text() == ""


def test_tables_are_sorted_and_filtered(open_report, rover: BridgePlan) -> None:
    page = open_report(rover)
    rates = page.tab.locator("#interfaces tbody tr td:nth-child(4)")
    head = page.tab.locator("#interfaces thead th:nth-child(4)")
    head.click()
    # An empty cell is behind all numbers.
    found = [float(each or "inf") for each in rates.all_inner_texts()]
    assert found == sorted(found)
    assert head.get_attribute("aria-sort") == "ascending"
    head.click()
    assert [float(each or "inf") for each in rates.all_inner_texts()] == found[::-1]
    page.tab.locator("#filter").fill("laserscan")
    assert page.tab.locator("#interfaces tbody tr:visible").count() == 1
    page.tab.locator("#filter").fill("")
    assert page.tab.locator("#interfaces tbody tr:visible").count() == len(found)


def test_the_meshes_are_saved_as_gltf(open_report, rover: BridgePlan) -> None:
    trimesh = pytest.importorskip("trimesh")
    page = open_report(rover)
    with page.tab.expect_download() as waiting:
        page.tab.locator("#scene-save").click()
    assert waiting.value.suggested_filename == "asset.glb"
    scene = trimesh.load(io.BytesIO(Path(waiting.value.path()).read_bytes()), file_type="glb", force="scene")
    assert len(scene.geometry) > 5


def test_dark_mode_is_dark(open_report, rover: BridgePlan) -> None:
    light = open_report(rover).picture()[5, 5]
    page = open_report(rover, scheme="dark")
    assert page.picture()[5, 5].max() < 80 < light.min()
    assert orange(page.picture()) > 5000


def test_without_scripts_everything_but_the_3d_view_is_there(open_report, rover: BridgePlan) -> None:
    page = open_report(rover, javascript=False)
    assert page.tab.locator("svg [data-frame]").count() == len(rover.robots[0].frames)
    assert page.tab.get_by_text("/rover/cmd_vel", exact=True).count() >= 1


def test_findings_and_differences_of_a_variant_are_shown(open_report) -> None:
    plans = [
        load_plan(ARM, physics=True, variants={"/arm:gripper": each}) for each in ("parallel", "suction")
    ]
    page = open_report(plans[1], old_label="parallel", difference=difference(*plans))
    assert page.tab.locator("#differences tbody tr").count() == len(difference(*plans))
    assert page.tab.locator("#frames svg [data-frame]").count() == len(plans[1].robots[0].frames)


TEXTURED = """#usda 1.0
(
    defaultPrim = "robot"
    kilogramsPerUnit = 1
    metersPerUnit = 1
    timeCodesPerSecond = 1
    upAxis = "Z"
)
def Xform "robot" (prepend apiSchemas = ["RosContextAPI", "PhysicsRigidBodyAPI"])
{
    def Mesh "flag" (prepend apiSchemas = ["MaterialBindingAPI"])
    {
        point3f[] points = [(0, 0, 0), (1, 0, 0), (1, 0, 1), (0, 0, 1)]
        int[] faceVertexCounts = [4]
        int[] faceVertexIndices = [0, 1, 2, 3]
        texCoord2f[] primvars:st = [(0, 0), (1, 0), (1, 1), (0, 1)] (interpolation = "vertex")
        rel material:binding = </robot/paint>
    }
    def Material "paint"
    {
        token outputs:surface.connect = </robot/paint/surface.outputs:surface>
        def Shader "surface"
        {
            uniform token info:id = "UsdPreviewSurface"
            color3f inputs:diffuseColor.connect = </robot/paint/image.outputs:rgb>
            token outputs:surface
        }
        def Shader "image"
        {
            uniform token info:id = "UsdUVTexture"
            asset inputs:file = @flag.png@
            float2 inputs:st.connect = </robot/paint/st.outputs:result>
            color3f outputs:rgb
        }
        def Shader "st"
        {
            uniform token info:id = "UsdPrimvarReader_float2"
            string inputs:varname = "st"
            float2 outputs:result
        }
    }
}
"""


def test_a_texture_is_the_right_way_up(open_report, tmp_path: Path) -> None:
    from PIL import Image

    image = Image.new("RGB", (64, 64), (255, 0, 0))
    image.paste((0, 255, 0), (32, 0, 64, 32))
    image.paste((0, 0, 255), (0, 32, 32, 64))
    image.paste((255, 255, 0), (32, 32, 64, 64))
    image.save(tmp_path / "flag.png")
    (tmp_path / "flag.usda").write_text(TEXTURED, encoding="utf-8")
    plan = load_plan(tmp_path / "flag.usda", physics=True)
    page = open_report(plan)
    page.change(lambda: page.tab.get_by_label("frame axes").uncheck())
    places = {}

    def found_all(picture: np.ndarray) -> bool:
        for name, wanted in {"red": "100", "green": "010", "blue": "001", "yellow": "110"}.items():
            high = [
                picture[..., row] > 90 if each == "1" else picture[..., row] < 60
                for row, each in enumerate(wanted)
            ]
            rows, columns = np.nonzero(np.logical_and.reduce(high))
            if len(rows) < 500:
                return False
            places[name] = float(rows.mean()), float(columns.mean())
        return True

    # The image is decoded beside the first drawing.
    before = page.drawn()
    if not found_all(page.picture()):
        page.wait_for_drawing(before)
        assert found_all(page.picture())
    # The camera stands at negative Y: X goes to the right, Z up, as the image does.
    assert places["red"][0] < places["blue"][0]
    assert places["green"][0] < places["yellow"][0]
    assert places["red"][1] < places["green"][1]
    assert places["blue"][1] < places["yellow"][1]


def test_markup_in_an_asset_is_text_and_runs_nothing(open_report, tmp_path: Path) -> None:
    plan = load_plan(write_nasty_asset(tmp_path), physics=True)
    page = open_report(plan)
    assert page.tab.evaluate("window.broken") is None
    assert page.tab.locator("img").count() == 0
    assert page.tab.locator("#findings tbody tr").count() == len(plan.diagnostics)
    assert "onerror=window.broken=2" in page.tab.locator("#findings").inner_text()
    # The green box of the asset.
    picture = page.picture()
    assert (
        int(((picture[..., 1] > picture[..., 0] + 60) & (picture[..., 1] > picture[..., 2] + 60)).sum())
        > 2000
    )
