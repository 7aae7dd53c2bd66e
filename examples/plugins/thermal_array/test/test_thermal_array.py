"""The thermal array against analytic geometry, and the conformance test of sensor models."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest
import thermal_array
from pxr import Sdf
from thermal_array import THERMAL_ARRAY

from usd_ros_bridge import load_plan
from usd_ros_bridge.testing.sensor_conformance import SensorConformance, open_sensors

KILN = Path(thermal_array.__file__).with_name("kiln.usda")
PATH = "/World/watcher/head/thermal_optical_frame"


class TestConformance(SensorConformance):
    """Run the conformance test on the kiln."""

    asset = KILN
    path = PATH


@pytest.fixture(scope="module")
def plan():
    return load_plan(KILN, physics=True)


def image(message) -> np.ndarray:
    assert message.encoding == "32FC1"
    return np.frombuffer(bytes(message.data), dtype=np.float32).reshape(message.height, message.width)


def test_pixels_that_see_the_kiln_are_hot(plan):
    with open_sensors(plan, options={"noise": "false"}) as bench:
        bench.run(0.5)
        measured = image(bench.messages(PATH)[-1])

    # The sensor is 1 m high and looks along the world's X; the kiln is at its height, and to its left.
    pixel = 2.0 * np.tan(np.radians(30.0)) / 8
    steps = (np.arange(8) - 3.5) * pixel
    right, down = np.meshgrid(steps, steps)
    rays = np.stack((np.ones_like(right), -right, -down), axis=-1)
    rays /= np.linalg.norm(rays, axis=-1, keepdims=True)
    centre = np.array([2.0, 0.1, 0.0])
    distance = np.linalg.norm(np.cross(rays, centre), axis=-1)
    expected = np.where(distance < 0.4, 300.0, 18.0)

    assert 0 < (expected == 300.0).sum() < 64
    np.testing.assert_allclose(measured, expected, atol=1e-3)


ROOM = """<mujoco><worldbody>
<geom name="/World/wall" type="box" size=".5 .5 .5" pos="3 -1 1"/>
<geom name="/World/kiln/glow" type="sphere" size=".4" pos="2 .1 1"/>
</worldbody></mujoco>"""


def test_rays_hit_what_mujoco_says(plan):
    room = mujoco.MjModel.from_xml_string(ROOM)
    state = mujoco.MjData(room)
    mujoco.mj_kinematics(room, state)
    rng = np.random.default_rng(0)
    directions = rng.normal((3.0, -0.5, 0.0), 0.4, (200, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    origins = rng.normal((0.0, 0.0, 1.0), 0.1, (200, 3))
    with open_sensors(plan) as bench:
        bench.run(0.01)
        backend = bench.runtime.backend
        caster = backend.ray_caster()
        hits = caster.cast(backend.copy_poses(), origins, directions, reach=50.0, body="/World/watcher/head")

    seen = set()
    for row in range(200):
        geom, normal = np.zeros(1, dtype=np.int32), np.zeros(3)
        distance = mujoco.mj_ray(room, state, origins[row], directions[row], None, 1, -1, geom, normal)
        if distance < 0.0:
            assert (hits.distance[row], hits.surface[row]) == (np.inf, -1)
            continue
        seen.add(room.geom(geom[0]).name)
        assert caster.surfaces[hits.surface[row]] == room.geom(geom[0]).name
        assert hits.distance[row] == pytest.approx(distance, abs=1e-9)
        np.testing.assert_allclose(hits.normal[row], normal, atol=1e-9)
    assert seen == set(caster.surfaces) - {"/World/watcher/head/housing"}


def test_noise_has_the_authored_deviation(plan):
    with open_sensors(plan) as bench:
        bench.run(10.0)
        frames = np.array([image(message) for message in bench.messages(PATH)])
    assert frames.std(axis=0).mean() == pytest.approx(0.25, rel=0.05)
    assert np.unique(frames).size > frames.size // 2


def test_the_schema_has_the_attributes_of_the_row():
    schema = Sdf.Layer.FindOrOpen(str(KILN.parent / "schema" / "generatedSchema.usda"))
    for name, attributes in (
        ("ThermalArrayAPI", THERMAL_ARRAY.attributes),
        ("ThermalSurfaceAPI", THERMAL_ARRAY.scene_attributes),
    ):
        authored = {each.name: each.default for each in schema.GetPrimAtPath(f"/{name}").properties}
        assert authored == {each.name: each.default for each in attributes.values()}
