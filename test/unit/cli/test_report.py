"""`usd_ros_bridge report` as a user and CI meet it: files, streams, exit statuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli_calls import call_cli, run_cli

pytestmark = pytest.mark.app

ROOT = Path(__file__).parents[3]
ARM = "examples/arm/arm.usda"
ROVER = "examples/rover/rover.usda"
BROKEN = """#usda 1.0
(
    defaultPrim = "rover"
    metersPerUnit = 1
    upAxis = "Z"
    subLayers = [@{rover}@]
)
over "rover"
{{
    over "lidar_link"
    {{
        string ros:topic:type = "sensor_msgs/msg/Laser Scan"
        double ros:topic:publish_rat = 20
    }}
}}
"""


def report(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return call_cli("report", *arguments)


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    path = tmp_path / "broken.usda"
    path.write_text(BROKEN.format(rover=ROOT / ROVER), encoding="utf-8")
    return path


def test_a_page_is_written_and_nothing_is_printed(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    result = report(ARM, "-o", page)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert "<h1>examples/arm/arm.usda</h1>" in text
    # As seen from the working directory.
    assert "<code>examples/arm/ros.usda</code>" in text
    assert '<b class="on">parallel</b>' in text
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


def test_against_another_variant(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    result = report(
        ARM, "--variant", "/arm:gripper=suction", "--against-variant", "/arm:gripper=none", "-o", page
    )
    assert result.returncode == 0
    text = page.read_text(encoding="utf-8")
    assert "From <code>examples/arm/arm.usda (/arm:gripper=none)</code>" in text
    assert "to <code>examples/arm/arm.usda (/arm:gripper=suction)</code>" in text
    assert '<b class="added">+ added</b>' in text


def test_against_another_asset(tmp_path: Path, broken: Path) -> None:
    page = tmp_path / "report.html"
    assert report(broken, "--against", ROVER, "-o", page).returncode == 0
    text = page.read_text(encoding="utf-8")
    assert f"From <code>{ROVER}</code>" in text
    assert "1 changed" in text


def test_errors_of_an_asset_with_strict_are_status_1_after_the_page(tmp_path: Path, broken: Path) -> None:
    page = tmp_path / "report.html"
    assert report(broken, "-o", page).returncode == 0
    page.unlink()
    result = report(broken, "-o", page, "--strict")
    assert result.returncode == 1
    assert result.stderr == f"usd_ros_bridge: {broken} has errors, and strict was asked for\n"
    assert "broken.usda:13" in page.read_text(encoding="utf-8")


def test_sarif_goes_to_a_file_or_to_standard_output(tmp_path: Path, broken: Path) -> None:
    printed = report(broken, "--format", "sarif")
    assert (printed.returncode, printed.stderr) == (0, "")
    log = json.loads(printed.stdout)
    found = {each["ruleId"]: each for each in log["runs"][0]["results"]}
    place = found["schema.attribute"]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": broken.as_uri()}, "region": {"startLine": 13}}
    assert found["2.3.type"]["level"] == "error"
    result = report(broken, "--format", "sarif", "-o", tmp_path / "findings.sarif", "--strict")
    assert (result.returncode, result.stdout) == (1, "")
    assert json.loads((tmp_path / "findings.sarif").read_text(encoding="utf-8")) == log


def test_annotations_are_a_line_each(broken: Path) -> None:
    result = report(broken, "--format", "github")
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert any(line.startswith(f"::error file={broken},title=2.3.type,line=12::") for line in lines)
    assert any(line.startswith("::warning ") for line in lines)
    assert report(ARM, "--format", "github").stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((ARM,), "name the page's file: -o report.html"),
        ((ARM, "--format", "sarif", "--against", ROVER), "--against goes with --format html"),
        (
            (ARM, "-o", "/nowhere/report.html"),
            "/nowhere/report.html cannot be written: No such file or directory",
        ),
        ((ARM, "-o", "x.html", "--max-mesh-mb", "-1"), "--max-mesh-mb"),
        (
            (ARM, "-o", "x.html", "--max-mesh-mb", "inf"),
            "Invalid value for '--max-mesh-mb': inf is no finite number",
        ),
        ((ARM, "-o", ""), ". cannot be written: Is a directory"),
        ((ARM, "-o", "Makefile/x.html"), "Makefile/x.html cannot be written: Not a directory"),
        ((ARM, "-o", f"{'x' * 300}.html"), "cannot be written: File name too long"),
        ((ARM, "-o", "x.html", "--against", "none.usda"), "none.usda"),
        ((ARM, "-o", "x.html", "--against-variant", "/arm:gripper=claw"), "claw"),
    ],
)
def test_mistakes_are_one_line_and_status_2(arguments: tuple[str, ...], message: str) -> None:
    result = report(*arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (ROOT / "x.html").exists()


@pytest.mark.parametrize("command", [("report",), ("export", "--format", "json")])
def test_a_file_of_the_asset_is_never_replaced(broken: Path, command: tuple[str, ...]) -> None:
    before = broken.read_bytes()
    done = call_cli(*command, broken, "-o", broken)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{broken} is part of the asset: name another file" in done.stderr
    assert broken.read_bytes() == before


def test_findings_are_utf_8_whatever_the_terminal_is(broken: Path) -> None:
    file = broken.with_name("rövér.usda")
    broken.rename(file)
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = run_cli("report", file, "--format", "github", text=False, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert f"file={file},".encode() in done.stdout


@pytest.mark.parametrize(
    "arguments", [("report", "--format", "sarif"), ("export", "--format", "json"), ("inspect", "--json")]
)
def test_a_full_disk_behind_a_redirection_is_one_line(arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = run_cli(arguments[0], ROOT / ARM, *arguments[1:], stdout=full)
    assert done.returncode == 2
    assert done.stderr == "usd_ros_bridge: the output cannot be written: No space left on device\n"


def test_ros_viser_and_trimesh_are_not_needed(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "for name in ('rclpy', 'ament_index_python', 'viser', 'trimesh', 'mujoco', 'PIL'):\n"
        "    sys.modules[name] = None\n"
        "from usd_ros_bridge.cli.main import main\n"
        "main(sys.argv[1:])\n"
    )
    command = [sys.executable, "-c", program, "report", str(ROOT / ARM), "-o", str(tmp_path / "report.html")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert 'id="scene-glb"' in (tmp_path / "report.html").read_text(encoding="utf-8")
