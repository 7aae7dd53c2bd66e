"""How viewers get mesh files: RViz' service, the HTTP server, packages; and what is refused."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import urllib.request
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import String

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.export.mesh_files import MeshCache, installed_meshes
from usd_ros_bridge.export.urdf import robot_urdf
from usd_ros_bridge.options import BridgeOptions
from usd_ros_bridge.ros.bridge import Bridge
from usd_ros_bridge.ros.description import mesh_sharing

pytest.importorskip(
    "rviz_resource_interfaces", reason="rviz_resource_interfaces is not installed: make setup"
)
from rviz_resource_interfaces.srv import GetResource

ROOT = Path(__file__).parents[2]
ARM = ROOT / "examples" / "arm" / "arm.usda"
ROVER = ROOT / "examples" / "rover" / "rover.usda"
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
TIMEOUT_S = 60.0
OK, ERROR, NOT_MODIFIED = (
    GetResource.Response.OK,
    GetResource.Response.ERROR,
    GetResource.Response.NOT_MODIFIED,
)


@pytest.fixture(autouse=True)
def mesh_directory(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "usd_ros_bridge" / "meshes"


def uris_of(harness, name="/arm/robot_description"):
    received = harness.listen(String, name, LATCHED)
    harness.wait_for(lambda: received, timeout=TIMEOUT_S, what="the description")
    found = {mesh.get("filename") for mesh in ElementTree.fromstring(received[0].data).iter("mesh")}
    assert found
    return found


def load(uri):
    with urllib.request.urlopen(uri, timeout=TIMEOUT_S) as answer:
        return answer.read()


@pytest.fixture
def get(ros_harness):
    """`get(uri, etag="")`: what RViz asks for a URI."""
    client = ros_harness.node.create_client(GetResource, "/rviz/get_resource")

    def ask(path, etag=""):
        ros_harness.wait_for(client.service_is_ready, what="the service")
        future = client.call_async(GetResource.Request(path=path, etag=etag))
        ros_harness.wait_for(future.done, timeout=TIMEOUT_S, what="an answer")
        return future.result()

    return ask


# --- The service of RViz ------------------------------------------------------------------------------------------


def test_rviz_gets_every_mesh_and_what_it_refers_to(start, ros_harness, get, mesh_directory):
    start(load_plan(ROVER))
    named = {uri.rpartition("/")[2] for uri in uris_of(ros_harness, "/rover/robot_description")}
    written = {path.name for path in mesh_directory.iterdir()}
    assert named <= written
    for name in written:
        answer = get(f"{mesh_directory.as_uri()}/{name}")
        assert (answer.status_code, answer.error_reason) == (OK, "")
        assert bytes(answer.body) == (mesh_directory / name).read_bytes()
        assert answer.expanded_path == (mesh_directory / name).as_uri()
        again = get(f"{mesh_directory.as_uri()}/{name}", answer.etag)
        assert (again.status_code, again.etag, len(again.body)) == (NOT_MODIFIED, answer.etag, 0)


def test_rviz_gets_no_other_file(start, ros_harness, get, mesh_directory, tmp_path):
    running = start(load_plan(ARM))
    uri = min(uris_of(ros_harness))
    name = uri.rpartition("/")[2]
    (tmp_path / name).write_bytes((mesh_directory / name).read_bytes())
    (mesh_directory / "other.stl").write_bytes(b"secret")
    (mesh_directory / ("a" * 32 + ".stl")).symlink_to(tmp_path / name)
    for path in (
        "",
        "/",
        "file:///etc/passwd",
        "/etc/passwd",
        f"{mesh_directory}/{name}",
        f"{tmp_path.as_uri()}/{name}",
        f"{mesh_directory.as_uri()}/",
        f"{mesh_directory.as_uri()}/other.stl",
        f"{mesh_directory.as_uri()}/../{name}",
        f"{mesh_directory.as_uri()}/x/../{name}",
        f"{mesh_directory.as_uri()}/{'a' * 32}.stl",
        f"{mesh_directory.as_uri()}/{'b' * 32}.stl",
        "package://some_description/meshes/wheel.dae",
    ):
        answer = get(path)
        assert answer.status_code == ERROR, path
        assert answer.error_reason
        assert len(answer.body) == 0
    assert get(uri).status_code == OK
    assert running.warnings.faults == []


def test_two_bridges_of_a_machine_give_the_same_answers(start, ros_harness, get):
    first, second = start(load_plan(ARM)), start(load_plan(ROVER))
    uris = uris_of(ros_harness) | uris_of(ros_harness, "/rover/robot_description")
    ros_harness.wait_for(
        lambda: ros_harness.node.count_services("/rviz/get_resource") == 2, what="both services"
    )
    assert {get(uri).status_code for uri in uris} == {OK}
    for running in (first, second):
        running.bridge.status()
        assert running.warnings.containing("/rviz/get_resource") == []


def test_the_service_ends_with_the_bridge_and_is_a_row_of_it(start, ros_harness, get):
    running = start(load_plan(ARM))
    assert get(min(uris_of(ros_harness))).status_code == OK
    (row,) = [
        each for each in running.bridge.status().interfaces if each.kind == "service" and "rviz" in each.name
    ]
    assert row.count == 1
    running.close()
    ros_harness.wait_for(
        lambda: ros_harness.node.count_services("/rviz/get_resource") == 0, what="the service's end"
    )


@pytest.mark.parametrize(
    "options", [{"remote_control": "none"}, {"publish_description": False}, {"mesh_uris": "file"}]
)
def test_no_service_where_it_is_not_wanted(start, options):
    running = start(load_plan(ARM), **options)
    assert [row for row in running.bridge.status().interfaces if row.name == "/rviz/get_resource"] == []


def test_without_the_type_auto_does_without_and_service_is_one_line(start, monkeypatch):
    monkeypatch.setattr(mesh_sharing, "GET_RESOURCE", "rviz_resource_interfaces/srv/Gone")
    running = start(load_plan(ARM))
    assert [row for row in running.bridge.status().interfaces if row.name == "/rviz/get_resource"] == []
    assert running.warnings.faults == []
    with pytest.raises(OptionError, match="install rviz_resource_interfaces"):
        Bridge(load_plan(ARM), options=BridgeOptions(mesh_uris="service")).open()


# --- HTTP ---------------------------------------------------------------------------------------------------------


@pytest.mark.process
def test_descriptions_name_the_server_which_has_the_files(start, ros_harness, mesh_directory):
    running = start(load_plan(ARM), mesh_uris="http")
    uris = uris_of(ros_harness)
    for uri in uris:
        assert uri.startswith("http://127.0.0.1:")
        assert load(uri) == (mesh_directory / uri.rpartition("/")[2]).read_bytes()
    assert running.warnings.faults == []
    running.close()
    with pytest.raises(OSError, match="refused"):
        load(min(uris))


@pytest.mark.process
def test_a_port_in_use_is_one_line_and_nothing_stays_open():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OptionError, match=f"port {port} of 127.0.0.1 is in use: take another one"):
            Bridge(load_plan(ARM), options=BridgeOptions(mesh_uris=f"http:{port}")).open()


@pytest.mark.process
def test_an_address_of_the_network_comes_with_a_warning(start):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Sends nothing.
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no network but the loopback")
        address = probe.getsockname()[0]
    running = start(load_plan(ARM), mesh_uris=f"http:{address}:0")
    assert len(running.warnings.containing(address, "can be read by everyone")) == 1


def test_the_node_does_so_with_a_plan_of_the_planner_process(program, ros_harness):
    node = program(
        [sys.executable, "-m", "usd_ros_bridge", "run", ARM, "--backend", "kinematic", "--mesh-uris", "http"]
    )
    uris = uris_of(ros_harness)
    assert all(uri.startswith("http://127.0.0.1:") for uri in uris)
    assert all(load(uri) for uri in uris)
    assert node.interrupt() == 0
    with pytest.raises(OSError, match="refused"):
        load(min(uris))


@pytest.mark.process
@pytest.mark.parametrize(
    ("text", "expected"), [("htp", "did you mean http"), ("http:x", "'x' is no port")], ids=["kind", "port"]
)
def test_mistakes_are_one_line_of_the_node(text, expected, tmp_path):
    for command in (
        ["usd_ros_bridge", "run", str(ARM), "--mesh-uris", text],
        ["usd_ros_bridge.ros.node", str(ARM), "--ros-args", "-p", f"mesh_uris:={text}"],
    ):
        ended = subprocess.run(
            [sys.executable, "-m", *command], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        assert ended.returncode == 2
        *_, line = ended.stderr.strip().splitlines()
        assert line.startswith("usd_ros_bridge: mesh_uris ")
        assert expected in line
        assert "Traceback" not in ended.stderr


# --- Packages and files -------------------------------------------------------------------------------------------


@pytest.fixture
def package(monkeypatch, tmp_path):
    """The share of a package of the ament index, which has the arm and no meshes yet."""
    prefix = tmp_path / "prefix"
    share = prefix / "share" / "arm_description"
    (share / "meshes").mkdir(parents=True)
    (share / "usd").symlink_to(ARM.parent)
    index = prefix / "share" / "ament_index" / "resource_index" / "packages"
    index.mkdir(parents=True)
    (index / "arm_description").touch()
    monkeypatch.setenv("AMENT_PREFIX_PATH", os.pathsep.join([str(prefix), os.environ["AMENT_PREFIX_PATH"]]))
    return share


def test_meshes_that_the_package_has_are_named_by_it_and_rviz_gets_them(
    start, ros_harness, get, package, mesh_directory
):
    asset = package / "usd" / "arm.usda"
    # As `usd_ros_bridge urdf --meshes` does when the package is built.
    robot_urdf(load_plan(asset, physics=True), 0, meshes=MeshCache(package / "meshes"))
    files = {path.name for path in (package / "meshes").iterdir()}
    assert (
        installed_meshes(asset)
        == installed_meshes("package://arm_description/usd/arm.usda")
        == package / "meshes"
    )
    start(load_plan(asset))
    uris = uris_of(ros_harness)
    assert {uri.rpartition("/")[0] for uri in uris} == {"package://arm_description/meshes"}
    assert {uri.rpartition("/")[2] for uri in uris} <= files
    assert not [path for path in mesh_directory.glob("*") if path.suffix in (".stl", ".obj")]
    for uri in uris:
        assert bytes(get(uri).body) == (package / "meshes" / uri.rpartition("/")[2]).read_bytes()


def test_one_that_the_package_has_not_goes_to_the_cache(start, ros_harness, package, mesh_directory):
    asset = package / "usd" / "arm.usda"
    robot_urdf(load_plan(asset, physics=True), 0, meshes=MeshCache(package / "meshes"))
    gone = min((package / "meshes").iterdir())
    gone.unlink()
    start(load_plan(asset))
    bases = {uri.rpartition("/")[0] for uri in uris_of(ros_harness)}
    assert bases == {"package://arm_description/meshes", mesh_directory.as_uri()}
    assert not gone.exists(), "nothing is written to the package"


@pytest.mark.parametrize(
    ("mesh_uris", "scheme"),
    [
        ("file", "file://"),
        pytest.param("http", "http://", marks=pytest.mark.process),
        ("package", "package://"),
    ],
)
def test_the_option_decides_for_files_of_the_package_too(start, ros_harness, package, mesh_uris, scheme):
    asset = package / "usd" / "arm.usda"
    robot_urdf(load_plan(asset, physics=True), 0, meshes=MeshCache(package / "meshes"))
    start(load_plan(asset), mesh_uris=mesh_uris)
    uris = uris_of(ros_harness)
    assert all(uri.startswith(scheme) for uri in uris)
    if scheme != "package://":
        assert all(load(uri) for uri in uris)


def test_a_package_is_needed_where_that_is_asked_for():
    with pytest.raises(
        OptionError, match="is not in the share of a ROS package; set mesh_directory to one that is"
    ):
        Bridge(load_plan(ARM), options=BridgeOptions(mesh_uris="package")).open()


def test_a_mesh_directory_in_a_package_counts_alone(start, ros_harness, package):
    start(load_plan(package / "usd" / "arm.usda"), mesh_directory=package / "made", mesh_uris="package")
    bases = {uri.rpartition("/")[0] for uri in uris_of(ros_harness)}
    assert bases == {"package://arm_description/made"}
