"""What the asset publishes, in a browser: laser points at the walls, the camera's picture in the panel, a selection."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import Image, JointState, LaserScan

from page_runs import ROVER, PageRun
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.view.page import Page

EVIL = '<img src="http://elsewhere.invalid/x.png" onerror="document.title=1">'
# A browser without a graphics card takes its time, and a test waits for it more than once.
pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def rover(run_bridge: Callable[..., PageRun]) -> PageRun:
    """The rover in its world, simulated; the page of that process has no browser."""
    run = run_bridge("run", ROVER, "--backend", "mujoco", "--no-live", "--view")
    run.wait_for_line("ready")
    return run


def red(picture: np.ndarray) -> np.ndarray:
    """Return which pixels have the colour of laser points."""
    r, g, b = (picture[..., i].astype(int) for i in range(3))
    return (r > 200) & (g < 100) & (b < 100)


class Canvas:
    """Where points of the world are in the picture of a browser."""

    def __init__(self, client: Any, shown: Any) -> None:
        camera = client.camera
        w, x, y, z = camera.wxyz
        self._rotation = np.array(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
                [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
                [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
            ]
        )
        self._position, self._fov = np.array(camera.position), camera.fov
        self._box = shown.tab.locator("canvas").first.bounding_box()

    def pixels(self, points: np.ndarray) -> np.ndarray:
        """Return columns and rows (N, 2) of points (N, 3) of the world, which are in front of the camera."""
        seen = (points - self._position) @ self._rotation
        focal = 0.5 * self._box["height"] / np.tan(0.5 * self._fov)
        box = self._box
        middle = np.array([box["x"] + 0.5 * box["width"], box["y"] + 0.5 * box["height"]])
        return middle + focal * seen[:, :2] / seen[:, 2:]


def laser_points(scan: LaserScan, origin: np.ndarray) -> np.ndarray:
    """Return where the rays of a scan of a rover that stands still hit, (N, 3)."""
    ranges = np.array(scan.ranges)
    angles = scan.angle_min + np.arange(len(ranges)) * scan.angle_increment
    hit = np.isfinite(ranges)
    return origin + np.column_stack(
        [ranges[hit] * np.cos(angles[hit]), ranges[hit] * np.sin(angles[hit]), np.zeros(hit.sum())]
    )


def show_layers_alone(page: Page, *names: str) -> None:
    """Switch all layers off but some, by the ends of their names."""
    for name in tuple(page.layers.all):
        page.layers.set(name, name.endswith(names))


@pytest.mark.usefixtures("rover")
def test_laser_points_are_red_where_the_rays_hit(own_page, open_page, ros_harness) -> None:
    scans: list[LaserScan] = []
    ros_harness.node.create_subscription(LaserScan, "/rover/scan", scans.append, qos_profile_sensor_data)
    page, url = own_page(ROVER, bridge="/usd_ros_bridge")
    show_layers_alone(page, "/rover/scan")
    shown = open_page(url)
    shown.wait_for_picture(lambda picture: red(picture).sum() > 50, "red points")
    ros_harness.wait_for(lambda: len(scans) > 2, timeout=30.0, what="scans")
    (client,) = page.server.get_clients().values()
    plan = load_plan(ROVER)
    lidar = next(each for each in plan.robots[0].frames if each.id == "lidar_link")
    body = plan.layout.body_pose[lidar.carrier][:3]
    points = laser_points(scans[-1], body + lidar.carrier_from_frame.translation)
    # From above, where no wall hides another.
    client.camera.position = body + np.array([0.0, -0.01, 9.0])
    client.camera.look_at = body

    def fits(picture: np.ndarray) -> bool:
        height, width = picture.shape[:2]
        at = np.rint(Canvas(client, shown).pixels(points)).astype(int)
        inside = (at > 4).all(axis=1) & (at < (width - 5, height - 5)).all(axis=1)
        marked = red(picture)
        near = [marked[y - 3 : y + 4, x - 3 : x + 4].any() for x, y in at[inside]]
        rows, columns = np.nonzero(marked)
        far = np.abs(np.column_stack([columns, rows])[:, None] - at[None]).max(axis=2).min(axis=1) > 6
        return inside.sum() > 100 and np.mean(near) > 0.9 and far.mean() < 0.1

    shown.wait_for_picture(fits, "red points where the rays hit")
    show_layers_alone(page, "nothing")
    shown.wait_for_picture(lambda picture: not red(picture).any(), "no laser points")


def panel_picture(shown: Any) -> np.ndarray:
    """Return the picture in the panel as (H, W, 3)."""
    element = shown.tab.locator("img").last
    element.wait_for(state="visible", timeout=90_000.0)
    element.scroll_into_view_if_needed()
    return np.asarray(Pillow.open(io.BytesIO(element.screenshot())).convert("RGB"))


@pytest.mark.usefixtures("rover")
def test_the_cameras_picture_is_in_the_panel(own_page, open_page, ros_harness) -> None:
    images: list[Image] = []
    ros_harness.node.create_subscription(Image, "/rover/image_raw", images.append, qos_profile_sensor_data)
    page, url = own_page(ROVER, bridge="/usd_ros_bridge")
    show_layers_alone(page, "/rover/image_raw")
    shown = open_page(url)
    shown.tab.get_by_role("tab", name="Show").click()
    shown.text("640x480")
    ros_harness.wait_for(lambda: len(images) > 2, timeout=30.0, what="images")
    found = panel_picture(shown)
    pixels = np.frombuffer(images[-1].data, np.uint8).reshape(images[-1].height, images[-1].width, 3)
    wanted = np.asarray(Pillow.fromarray(pixels).resize((found.shape[1], found.shape[0])))
    assert np.abs(found.astype(int) - wanted).mean() < 6.0
    assert wanted.std() > 20.0
    # Its check box removes it.
    shown.tab.get_by_label("image_raw").uncheck()
    shown.tab.locator("img").last.wait_for(state="hidden", timeout=90_000.0)


@pytest.mark.usefixtures("rover")
def test_a_click_on_the_robot_shows_its_properties(own_page, open_page) -> None:
    page, url = own_page(ROVER, bridge="/usd_ros_bridge")
    show_layers_alone(page, "meshes")
    shown = open_page(url)
    shown.tab.get_by_role("tab", name="Show").click()
    (client,) = page.server.get_clients().values()
    plan = load_plan(ROVER)
    body = plan.layout.body_pose[plan.robots[0].base_row][:3]
    # The lidar, from above.
    client.camera.position = body + np.array([0.0, -0.01, 3.0])
    client.camera.look_at = body
    shown.picture_at_rest()
    scan = "/rover/scan, sensor_msgs/msg/LaserScan, 10 Hz, reliable"
    joint = "left_wheel_joint (continuous Y)"
    wanted = {
        "lidar_link": ("/World/rover", scan),
        "left_wheel": ("/World/rover/left_wheel", joint, "xyz 0.000 0.165 0.100 m, rpy"),
    }
    for name, texts in wanted.items():
        frame = next(each for each in plan.robots[0].frames if each.id == name)
        place = plan.layout.body_pose[frame.carrier][:3] + frame.carrier_from_frame.translation
        x, y = Canvas(client, shown).pixels(place[None])[0]
        shown.tab.mouse.click(float(x), float(y))
        for text in texts:
            shown.tab.get_by_text(text).first.wait_for(state="attached", timeout=90_000.0)


def test_a_frame_is_chosen_from_the_list_and_the_tree_is_shown(own_page, open_page) -> None:
    _, url = own_page(ROVER, bridge="/usd_ros_bridge")
    shown = open_page(url)
    shown.tab.get_by_role("tab", name="Show").click()
    tree = shown.tab.locator("pre").first
    end = time.monotonic() + 90.0
    while (lines := tree.inner_text().splitlines()[:2]) != ["odom", "└── base_link *"]:
        assert time.monotonic() < end, lines
        shown.tab.wait_for_timeout(200.0)
    shown.tab.get_by_label("frame", exact=True).last.click()
    shown.tab.get_by_role("option", name="camera_optical_frame").click()
    shown.tab.get_by_text("camera_optical_frame in camera_link (static)").wait_for(
        state="attached", timeout=90_000.0
    )


def test_text_of_a_peer_is_shown_as_text(own_page, open_page, ros_harness) -> None:
    page, url = own_page(ROVER, bridge="/usd_ros_bridge")
    show_layers_alone(page, "/rover/joint_states")
    publisher = ros_harness.node.create_publisher(JointState, "/rover/joint_states", 10)
    shown = open_page(url)
    shown.tab.get_by_role("tab", name="Show").click()
    ros_harness.wait_for(lambda: publisher.get_subscription_count() > 0, timeout=30.0, what="the page")
    message = JointState(name=[EVIL], position=[1.0])
    message.header.frame_id = EVIL
    # Again and again: what comes before the page's subscription knows the publisher is lost.
    element, end = shown.tab.get_by_text(EVIL).first, time.monotonic() + 90.0
    while not element.count():
        assert time.monotonic() < end, "the text is not shown"
        publisher.publish(message)
        shown.tab.wait_for_timeout(200.0)
    assert shown.tab.locator('img[src*="elsewhere"]').count() == 0
    assert shown.tab.title() != "1"
