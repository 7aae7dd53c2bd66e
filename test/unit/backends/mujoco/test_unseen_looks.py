"""What pictures do not show is reported once for each prim: `1.4.camera`. Pictures by rays say whether it is true."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")
pytest.importorskip("mujoco", reason="mujoco is not installed: pip install usd-ros-bridge[mujoco]")

import mujoco
from pxr import Sdr

from builders.stage_text import at, body, findings, header, plan_text, prim, stage_of, world
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.backends.mujoco.backend import build_spec
from usd_ros_bridge.backends.mujoco.cameras import add_cameras
from usd_ros_bridge.backends.mujoco.compiled_model import compile_model
from usd_ros_bridge.backends.mujoco.rendering import RayRenderer
from usd_ros_bridge.model.diagnostics import grouped
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import PlanOptions
from usd_ros_bridge.usd.read import unseen_looks
from usd_ros_bridge.usd.read.materials import CONNECTED_INPUTS

CODE = "1.4.camera"
TURNED = "quatf xformOp:orient = (0, 1, 0, 0)\nuniform token[] xformOpOrder = ['xformOp:orient']"
MESH = """
point3f[] points = [(-1, -1, 0), (1, -1, 0), (1, 1, 0), (-1, 1, 0)]
int[] faceVertexCounts = [3, 3]
int[] faceVertexIndices = [0, 1, 2, 0, 2, 3]
texCoord2f[] primvars:st = [(0, 0), (1, 0), (1, 1), (0, 1)] (interpolation = "vertex")
"""
PNG = (
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\2\0\0\0\x90wS\xde\0\0\0\x0cIDATx\x9cc\xf8\xcf\xc0\0\0\x03\1\1\0"
    b"\xc9\xfe\x92\xef\0\0\0\0IEND\xaeB`\x82"
)
"""One red pixel."""


def pictures(kind: str = "sensor_msgs/msg/Image", name: str = "image_raw", role: str = "publisher") -> str:
    """A body with a camera that looks down from 4 m, and an interface."""
    topic = prim(
        "Xform",
        "topic",
        "RosTopicAPI",
        f'token ros:topic:role = "{role}"',
        f'string ros:topic:name = "{name}"',
        f'string ros:topic:type = "{kind}"',
        "double ros:topic:publish_rate = 10",
    )
    optical = prim("Xform", "optical", "RosFrameAPI", TURNED, topic)
    camera = prim(
        "Camera",
        "camera",
        "",
        at(0, 0, 4),
        "custom int2 usd_ros_bridge:camera:resolution = (64, 48)",
        optical,
    )
    return body("base", "float physics:mass = 1", camera)


def material(name: str, *inputs: str, shaders: str = "") -> str:
    shader = prim(
        "Shader", "s", "", 'uniform token info:id = "UsdPreviewSurface"', "token outputs:surface", *inputs
    )
    return prim(
        "Material",
        name,
        "",
        f"token outputs:surface.connect = </World/{name}/s.outputs:surface>",
        shader,
        shaders,
    )


def mesh(*content: str, bound: str = "") -> str:
    binding = f"rel material:binding = </World/{bound}>" if bound else ""
    return prim("Mesh", "square", "MaterialBindingAPI" if bound else "", MESH, binding, *content)


def texture(file: str, name: str = "diffuseColor") -> str:
    image = prim(
        "Shader",
        "t",
        "",
        'uniform token info:id = "UsdUVTexture"',
        f"asset inputs:file = @{file}@",
        "float3 outputs:rgb",
    )
    return material("m", f"color3f inputs:{name}.connect = </World/m/t.outputs:rgb>", shaders=image)


def subset(name: str, face: int, bound: str) -> str:
    return prim(
        "GeomSubset",
        name,
        "MaterialBindingAPI",
        'uniform token elementType = "face"',
        'uniform token familyName = "materialBind"',
        f"int[] indices = [{face}]",
        f"rel material:binding = </World/{bound}>",
    )


def found(plan: BridgePlan) -> list[tuple[str, str, str]]:
    return [(each.path, each.attribute, each.value) for each in findings(plan, CODE)]


def picture(plan: BridgePlan) -> Any:
    scene = plan.physics
    assert scene is not None
    built = build_spec(scene, lambda kind, message: pytest.fail(f"{kind}: {message}"))
    add_cameras(built, plan.scene.cameras)
    model = compile_model(built).model
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    assert model.nlight == 1
    return RayRenderer(model, plan.scene.cameras).color(data, plan.scene.cameras[0].path)


RED, BLUE = (
    material("red", "color3f inputs:diffuseColor = (1, 0, 0)"),
    material("blue", "color3f inputs:diffuseColor = (0, 0, 1)"),
)
SUBSETS = mesh(subset("one", 0, "red"), subset("two", 1, "blue"))
COLORS = 'color3f[] primvars:displayColor = [(1, 0, 0), (0, 0, 1)] (interpolation = "uniform")'
MEAN = "color3f[] primvars:displayColor = [(0.5, 0, 0.5)]"
LIGHT = prim("SphereLight", "lamp", "", at(0, 0, 2), "float inputs:intensity = 1000")


@pytest.mark.parametrize(
    ("with_it", "without", "expected"),
    [
        (
            material(
                "red", "color3f inputs:diffuseColor = (1, 0, 0)", "color3f inputs:emissiveColor = (0, 1, 0)"
            )
            + mesh(bound="red"),
            RED + mesh(bound="red"),
            [("/World/red/s", "inputs:emissiveColor", "'(0.0, 1.0, 0.0)'")],
        ),
        (
            RED + BLUE + SUBSETS,
            RED + BLUE + mesh(bound="red"),
            [
                ("/World/square/one", "indices", "'1 faces'"),
                ("/World/square/two", "indices", "'1 faces'"),
            ],
        ),
        (mesh(COLORS), mesh(MEAN), [("/World/square", "primvars:displayColor", "'2 colours'")]),
        (LIGHT + mesh(), mesh(), [("/World/lamp", "", "'SphereLight'")]),
    ],
    ids=["emission", "subsets", "colours", "light"],
)
def test_pictures_are_the_same_without_what_is_reported(
    with_it: str, without: str, expected: list[tuple[str, str, str]]
) -> None:
    plan, plain = plan_text(world(pictures(), with_it)), plan_text(world(pictures(), without))

    assert found(plan) == expected
    assert found(plain) == []
    np.testing.assert_array_equal(picture(plan), picture(plain))


def test_a_texture_is_reported_and_not_shown(tmp_path: Path) -> None:
    (tmp_path / "red.png").write_bytes(PNG)
    file = tmp_path / "robot.usda"
    file.write_text(header() + world(pictures(), texture("red.png"), mesh(bound="m")))

    plan = load_plan(file, physics=True)

    ((path, name, value),) = found(plan)
    assert (path, name) == ("/World/m/t", "inputs:file")
    assert "red.png" in value
    pixels = picture(plan).astype(int)
    assert np.ptp(pixels[24, 32]) == 0, "grey, not red"


def test_a_missing_texture_is_reported_by_its_own_code() -> None:
    plan = plan_text(world(pictures(), texture("none.png"), mesh(bound="m")))

    assert found(plan) == []
    assert len(findings(plan, "1.3.texture")) == 1


def test_the_fallbacks_of_the_surface_say_nothing() -> None:
    node = Sdr.Registry().GetShaderNodeByIdentifier("UsdPreviewSurface")
    names = (getattr(node, "GetShaderInputNames", None) or node.GetInputNames)()
    read = getattr(node, "GetShaderInput", None) or node.GetInput
    (shines,) = set(names) & unseen_looks.EMISSION.keys()
    assert any(np.allclose(read(shines).GetDefaultValue(), each) for each in unseen_looks.EMISSION[shines])
    numbers = {"ior", "clearcoatRoughness", "opacityMode", "opacityThreshold", "useSpecularWorkflow"}
    assert set(names) - {shines} - numbers <= {
        *CONNECTED_INPUTS,
        *unseen_looks.SURFACE_IMAGES,
        "specularColor",
    }


def test_a_plain_stage_says_nothing() -> None:
    text = material(
        "m",
        "color3f inputs:diffuseColor = (1, 0, 0)",
        "float inputs:roughness = 0.1",
        "float inputs:metallic = 1",
    )

    assert found(plan_text(world(pictures(), text, mesh(bound="m")))) == []


@pytest.mark.parametrize(
    "interface",
    [
        body("base"),
        pictures("sensor_msgs/msg/CameraInfo", "camera_info"),
        pictures(name="depth/image_raw"),
        pictures("sensor_msgs/msg/Image", role="subscription"),
    ],
    ids=["no camera", "camera info", "depth", "subscription"],
)
def test_nothing_is_said_where_no_colour_image_is_published(interface: str) -> None:
    assert found(plan_text(world(interface, RED, BLUE, SUBSETS, LIGHT))) == []


def test_nothing_is_said_for_an_engine_that_takes_no_pictures() -> None:
    stage = stage_of(world(pictures(), LIGHT, mesh(COLORS)), header())

    assert len(found(load_plan(stage, physics=True))) == 2
    assert found(load_plan(stage, physics=True, plan_options=PlanOptions(engine="newton"))) == []


def test_what_cannot_be_seen_is_not_reported() -> None:
    hidden = prim("Xform", "hidden", "", 'token visibility = "invisible"', mesh(COLORS), LIGHT)

    assert found(plan_text(world(pictures(), hidden))) == []


def test_texts_show_one_line_for_each_kind() -> None:
    lamps = "".join(prim("SphereLight", f"lamp{number}") for number in range(50))
    plan = plan_text(world(pictures(), lamps, mesh(COLORS)))

    groups = [each for each in grouped(plan.diagnostics) if each.first.code == CODE]

    assert [(each.count, each.first.reason) for each in groups] == [
        (1, "approximated"),
        (50, "not implemented"),
    ]
    assert "on 50 prims: /World/lamp0, /World/lamp1, /World/lamp2, ..." in groups[1].message
