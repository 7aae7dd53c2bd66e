"""Robot files: faults of a URDF are found before it is converted, each with its line and a remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from usd_ros_bridge.errors import AssetError
from usd_ros_bridge.importing.allowed_files import AllowedFiles, find_in_ros_package_path
from usd_ros_bridge.importing.robot_file import RobotFile, read_robot_file

pytestmark = pytest.mark.app

PENDULUM = """<robot name="pendulum">
  <link name="base"/>
  <link name="arm"/>
  <joint name="hinge" type="revolute">
    <parent link="base"/>
    <child link="arm"/>
    <axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" effort="10" velocity="2"/>
  </joint>
</robot>
"""
MESH = '<link name="arm"><visual><geometry><mesh filename="{}"/></geometry></visual></link>'


def read(tmp_path: Path, text: str | bytes, **packages: Path) -> RobotFile:
    file = tmp_path / "robot.urdf"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_robot_file(file, packages.get)


def test_a_sound_urdf_has_no_fault(tmp_path: Path) -> None:
    robot = read(tmp_path, PENDULUM)
    assert (robot.kind, robot.name, robot.root, robot.diagnostics) == ("urdf", "pendulum", "base", ())


def test_an_mjcf_is_known_by_its_root_element(tmp_path: Path) -> None:
    robot = read(tmp_path, '<mujoco model="cart"><worldbody/></mujoco>')
    assert (robot.kind, robot.name, robot.diagnostics) == ("mjcf", "cart", ())


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("</robot>", "", "error [import.xml] robot.urdf:11: the XML is broken: no element found"),
        ('name="arm"/>', 'name="arm">', "robot.urdf:10: the XML is broken: mismatched tag"),
        (' name="pendulum"', "", "error [import.name] robot.urdf:1: <robot> has no name"),
        ("pendulum", "../../pendulum", "is no file name (write name='pendulum')"),
        ('<link name="arm"/>', '<link name="base"/>', "robot.urdf:3: link 'base' is also on line 2"),
        ('<link name="arm"/>', "<link/>", "robot.urdf:3: a <link> has no name"),
        ('"revolute"', '"revolut"', "robot.urdf:4: joint 'hinge' has the type 'revolut' (did you mean revolute?)"),
        ('type="revolute"', "", "robot.urdf:4: joint 'hinge' has no type (possible are continuous, fixed"),
        ('parent link="base"', 'parent link="bas"', "robot.urdf:5: joint 'hinge': no link is called 'bas' (did"),
        ('<child link="arm"/>', "", "robot.urdf:4: joint 'hinge': it has no child link (name a link of the file"),
        ('xyz="0 1 0"', 'xyz="0 0 0"', "robot.urdf:7: joint 'hinge' has an axis of length 0"),
        ('xyz="0 1 0"', 'xyz="0 1"', "error [import.number] robot.urdf:7: <axis xyz='0 1'>: 2 numbers in place of 3"),
        ('upper="1"', 'upper="one"', "robot.urdf:8: <limit upper='one'>: not a number (write one number)"),
        ('upper="1"', 'upper="nan"', "<limit upper='nan'>: not a finite number"),
        ('<limit lower="-1" upper="1" effort="10" velocity="2"/>', "", "has no <limit>: it would be locked"),
        ('<axis xyz="0 1 0"/>', '<mimic joint="hing"/>', "joint 'hinge' mimics 'hing', which is no other joint"),
        ('"base"/>\n    <child', '"arm"/>\n    <child', "joints make a loop of the links 'arm'"),
        ("</robot>", '<link name="lost"/></robot>', "the robot has 2 roots: 'base', 'lost' (join them, "),
        ('"-1"', '"${-pi}"', "error [import.xacro] robot.urdf:8: '${-pi}' is xacro's, and not expanded (expand"),
        ('<link name="arm"/>', '<xacro:arm name="arm"/>', "<xacro:arm> is xacro's, and not expanded"),
        ('<link name="arm"/>', MESH.format("arm.stl"), "robot.urdf:3: 'arm.stl' is missing: there is no"),
        ('<link name="arm"/>', MESH.format("arm.fbx"), "'arm.fbx' is no mesh that is read (convert it to one of .dae"),
        ('<link name="arm"/>', MESH.format("https://example.org/arm.stl"), "is on another machine"),
        ('<link name="arm"/>', MESH.format(""), "a <mesh> has no filename"),
        (
            '<link name="arm"/>',
            MESH.format("package://arm_description/arm.stl"),
            "(name its directory: --package arm_description=DIRECTORY",
        ),
        (
            '<robot name="pendulum">',
            '<!DOCTYPE robot [<!ENTITY other SYSTEM "file:///etc/passwd">]><robot name="pendulum">',
            "it declares entities, which are not read",
        ),
    ],
)  # fmt: skip
def test_a_fault_has_its_line_and_a_remedy(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in PENDULUM
    robot = read(tmp_path, PENDULUM.replace(old, new, 1))
    errors = [str(each) for each in robot.diagnostics if each.severity == "error"]
    assert any(said in error for error in errors), errors
    assert all(each.remedy and "\n" not in str(each) for each in robot.diagnostics)


def test_a_child_of_two_joints_is_found(tmp_path: Path) -> None:
    second = '<joint name="other" type="fixed"><parent link="base"/><child link="arm"/></joint></robot>'
    robot = read(tmp_path, PENDULUM.replace("</robot>", second))
    (fault,) = robot.diagnostics
    assert "link 'arm' is the child of two joints: it hangs from 'base' already" in str(fault)


def test_a_limit_without_room_is_a_warning(tmp_path: Path) -> None:
    robot = read(tmp_path, PENDULUM.replace('lower="-1"', 'lower="1"'))
    (warning,) = robot.diagnostics
    assert (warning.severity, "cannot move" in warning.message) == ("warning", True)


def test_all_faults_are_found_at_once(tmp_path: Path) -> None:
    text = PENDULUM.replace('upper="1"', 'upper="one"').replace('"arm"/>\n    <axis', '"ar"/>\n    <axis')
    codes = [each.code for each in read(tmp_path, text).diagnostics]
    assert codes == ["import.number", "import.joint"]


def test_a_mesh_is_found_by_package(tmp_path: Path) -> None:
    package = tmp_path / "arm_description"
    package.mkdir()
    (package / "arm.stl").touch()
    text = PENDULUM.replace('<link name="arm"/>', MESH.format("package://arm_description/arm.stl"))
    robot = read(tmp_path, text, arm_description=package)
    assert robot.diagnostics == ()
    assert robot.files == {"package://arm_description/arm.stl": str(package / "arm.stl")}


def test_a_package_above_the_file_is_found(tmp_path: Path) -> None:
    package = tmp_path / "arm_description"
    (package / "urdf").mkdir(parents=True)
    (package / "package.xml").write_text("<package><name>arm</name></package>", encoding="utf-8")
    (package / "meshes").mkdir()
    (package / "meshes/arm.stl").touch()
    text = PENDULUM.replace('<link name="arm"/>', MESH.format("package://arm_description/meshes/arm.stl"))
    robot = read(package / "urdf", text)
    assert robot.diagnostics == ()
    assert list(robot.files.values()) == [str(package / "meshes/arm.stl")]


def test_a_third_slash_before_a_package_is_no_package(tmp_path: Path) -> None:
    package = tmp_path / "arm_description"
    package.mkdir()
    (package / "arm.stl").touch()
    text = PENDULUM.replace('<link name="arm"/>', MESH.format("package:///arm_description/arm.stl"))
    robot = read(tmp_path, text, arm_description=package)
    assert robot.diagnostics == ()
    assert list(robot.files.values()) == [str(package / "arm.stl")]


def test_a_robot_in_the_root_may_read_nothing() -> None:
    allowed = AllowedFiles(Path("/robot.urdf"), lambda _: None)
    path = allowed.locate("package://etc/passwd")
    assert path == Path("/etc/passwd")
    assert not allowed.allows(path)
    assert allowed.folders == []


def test_many_missing_meshes_are_counted(tmp_path: Path) -> None:
    links = "".join(MESH.format(f"{number}.stl").replace("arm", f"l{number}") for number in range(40))
    found = [str(each) for each in read(tmp_path, f'<robot name="r">{links}</robot>').diagnostics]
    meshes = [line for line in found if "import.mesh" in line]
    assert len(meshes) == 6
    assert "35 more meshes from here on cannot be read" in meshes[-1]


def test_ros_package_path_names_packages_and_folders_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "src/arm_description").mkdir(parents=True)
    for entry in ("src", "src/arm_description"):
        monkeypatch.setenv("ROS_PACKAGE_PATH", f"/nowhere:{tmp_path / entry}")
        assert find_in_ros_package_path("arm_description") == tmp_path / "src/arm_description"
    assert find_in_ros_package_path("other") is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"<sdf/>", "its root element is <sdf>; URDF has <robot>, MJCF has <mujoco>, and an SDF is not read"),
        (b"#usda 1.0\n", "is OpenUSD already: usd_ros_bridge run "),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes, said: str) -> None:
    with pytest.raises(AssetError) as refusal:
        read(tmp_path, content)
    assert said in str(refusal.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssetError, match="No such file"):
        read_robot_file(tmp_path / "no.urdf", lambda _: None)


def test_links_without_names_make_no_loop(tmp_path: Path) -> None:
    found = read(tmp_path, '<robot name="x"><link/><link/><joint/></robot>')
    assert not [each for each in found.diagnostics if each.code == "import.tree"]


def test_what_xacro_has_expanded_may_have_its_marks(tmp_path: Path) -> None:
    """`$${HOME}` in a xacro is `${HOME}` in what it makes."""
    urdf = tmp_path / "expanded.urdf"
    urdf.write_text(
        '<robot name="r"><link name="base"/><gazebo><plugin filename="${HOME}/p.so"/></gazebo></robot>',
        encoding="utf-8",
    )
    assert [each.code for each in read_robot_file(urdf, {}.get).diagnostics] == ["import.xacro"]
    found = read_robot_file(tmp_path / "robot.xacro", {}.get, urdf=urdf)
    assert (found.root, found.diagnostics) == ("base", ())
