"""The files that commands write: none of the asset, complete or the one before, and said where they replace one."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from pxr import UsdUtils

from cli_calls import ROOT, call_cli, run_cli
from page_files import write_page_files
from sweeps import write_sweep
from usd_ros_bridge.cli.command_group import COMMANDS
from usd_ros_bridge.cli.output_files import output_file
from usd_ros_bridge.errors import OptionError

ROBOT = """#usda 1.0
(
    defaultPrim = "rover"
    kilogramsPerUnit = 1
    metersPerUnit = 1
    upAxis = "Z"
    subLayers = [@./rover/rover.usda@]
)
over "rover" (
    prepend variantSets = "tool"
    variants = { string tool = "none" }
    prepend payload = @./payload.usda@
    clips = {
        dictionary default = {
            string primPath = "/rover"
            asset templateAssetPath = @./clip.###.usda@
            asset manifestAssetPath = @./manifest.usda@
            double templateStartTime = 1
            double templateEndTime = 2
            double templateStride = 1
        }
    }
)
{
    asset paint = @./paint.png@
    asset tiles = @./tile.<UDIM>.png@
    variantSet "tool" = {
        "none" {
        }
        "arm" (
            prepend references = @./arm.usda@
        ) {
        }
        "packed" (
            prepend references = @./packed.usdz@
        ) {
        }
    }
}
"""
LAYER = '#usda 1.0\n(defaultPrim = "rover")\nover "rover" {\n    asset detail = @./detail.png@\n}\n'
FILES = (
    "robot.usda",
    "rover/rover.usda",
    "rover/geometries.usdc",
    "payload.usda",
    "arm.usda",
    "packed.usdz",
    "manifest.usda",
    "clip.001.usda",
    "paint.png",
    "tile.1002.png",
    "detail.png",
    "other/../robot.usda",
    "other/symbolic",
    "other/hard",
)
"""Names of files of the asset."""

WRITERS = {
    "urdf": ("{asset}", "-o", "{file}"),
    "report": ("{asset}", "--format", "sarif", "-o", "{file}"),
    "export": ("{asset}", "--format", "json", "-o", "{file}"),
    "rviz": ("{asset}", "--force", "-o", "{file}"),
    "scaffold": ("{asset}", "--force", "--ground", "-o", "{file}"),
    "run": ("{asset}", "--no-ros", "--backend", "kinematic", "--duration", "0.1", "--record", "{file}"),
}
"""Commands that read an asset and write a file."""
OTHERS = {"fleet", "import", "recover", "resolver", "sweep"}
"""Other commands that write: fleet as `run`, the others read no asset."""


@pytest.fixture
def asset(tmp_path: Path) -> Path:
    """An asset whose layers are in variants and payloads, too, and that names other files."""
    folder = tmp_path / "asset"
    (folder / "other").mkdir(parents=True)
    shutil.copytree(ROOT / "examples/rover", folder / "rover")
    for name in ("payload", "arm", "manifest", "clip.001", "packed"):
        (folder / f"{name}.usda").write_text(LAYER, encoding="utf-8")
    for name in ("paint", "tile.1001", "tile.1002", "detail"):
        (folder / f"{name}.png").write_bytes(b"picture")
    assert UsdUtils.CreateNewUsdzPackage(str(folder / "packed.usda"), str(folder / "packed.usdz"))
    (folder / "packed.usda").unlink()
    root = folder / "robot.usda"
    root.write_text(ROBOT, encoding="utf-8")
    (folder / "other/symbolic").symlink_to("../robot.usda")
    (folder / "other/hard").hardlink_to(root)
    return root


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write(command: str, asset: Path, file: Path, *more: str | Path) -> tuple[int, list[str]]:
    """Run a command that writes a file. Return its status, and its lines on standard error."""
    arguments = [each.format(asset=asset, file=file) for each in WRITERS[command]]
    done = call_cli(command, *arguments, *more)
    return done.returncode, done.stderr.splitlines()


def test_every_command_that_writes_a_file_is_here() -> None:
    own = [name for name in COMMANDS.names() if not COMMANDS.is_foreign(name)]
    flags = {"-o", "--output", "--record", "--directory"}
    found = {
        name
        for name in own
        for option in COMMANDS[name].params
        if isinstance(option, click.Option) and flags.intersection(option.opts)
    }
    assert found == {*WRITERS, *OTHERS}


@pytest.mark.parametrize("command", WRITERS)
def test_no_command_overwrites_the_asset(command: str, asset: Path) -> None:
    if command == "run":
        pytest.importorskip("rclpy", reason="rclpy is not installed: make setup")
        pytest.importorskip("foxglove", reason="foxglove-sdk is not installed: make setup")
    before = contents(asset.parent)
    for name in ("robot.usda", "rover/ros.usda", "arm.usda"):
        status, lines = write(command, asset, asset.parent / name)
        reason = "exists already" if command == "run" else "is part of the asset: name another file"
        assert (status, reason in lines[-1]) == (2, True), lines
        assert contents(asset.parent) == before


@pytest.mark.parametrize("payloads", ["all", "none"])
def test_every_file_of_an_asset_is_kept(asset: Path, payloads: str) -> None:
    before = contents(asset.parent)
    for name in FILES:
        status, lines = write("urdf", asset, asset.parent / name, "--payloads", payloads)
        assert (status, lines[-1]) == (
            2,
            f"usd_ros_bridge: {asset.parent / name} is part of the asset: name another file",
        )
    assert contents(asset.parent) == before


def test_the_asset_of_a_comparison_is_kept(asset: Path, tmp_path: Path) -> None:
    old = tmp_path / "old.usda"
    old.write_text(
        '#usda 1.0\n(\n    subLayers = [@asset/robot.usda@]\n    defaultPrim = "rover"\n)\n', encoding="utf-8"
    )
    before = old.read_bytes()
    for arguments in ((asset, "--against", old), (old, "--against", asset)):
        done = call_cli("report", *arguments, "--max-mesh-mb", "0", "-o", old)
        assert (done.returncode, "is part of the asset" in done.stderr) == (2, True)
    assert old.read_bytes() == before


def test_meshes_of_an_export_do_not_replace_the_asset(asset: Path) -> None:
    pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")
    out = asset.with_name("out.xml")
    assert call_cli("export", asset, "-o", out).returncode == 0
    made = sorted(asset.with_name("out_meshes").iterdir())
    texture = asset.with_name("paint.png")
    texture.unlink()
    texture.hardlink_to(made[0])
    before = contents(asset.parent)
    done = call_cli("export", asset, "-o", out)
    assert (done.returncode, f"{made[0]} is part of the asset" in done.stderr) == (2, True)
    assert contents(asset.parent) == before
    texture.unlink()
    texture.touch()
    done = call_cli("export", asset, "-o", out)
    line = next(line for line in done.stderr.splitlines() if "replaced" in line)
    assert line.startswith(f"usd_ros_bridge: replaced {made[0]} (")
    assert line.endswith(f" and {len(made) - 2} more")


@pytest.mark.parametrize("command", [name for name in WRITERS if name != "run"])
def test_what_is_replaced_is_said(command: str, asset: Path, tmp_path: Path) -> None:
    file = tmp_path / "notes.usda"
    status, lines = write(command, asset, file)
    assert (status, [line for line in lines if line.startswith("usd_ros_bridge: replaced")]) == (0, [])
    written = file.read_bytes()
    file.write_bytes(b"n" * 1234)
    status, lines = write(command, asset, file)
    assert (status, [line for line in lines if line.startswith("usd_ros_bridge: replaced")]) == (
        0,
        [f"usd_ros_bridge: replaced {file} (1.2 kB)"],
    )
    assert file.read_bytes() == written
    assert sorted(path.name for path in tmp_path.iterdir()) == ["asset", "notes.usda"]


@pytest.mark.parametrize("command", ["rviz", "scaffold"])
def test_commands_with_force_replace_nothing_without_it(command: str, asset: Path, tmp_path: Path) -> None:
    file = tmp_path / "notes.usda"
    file.write_text("mine", encoding="utf-8")
    arguments = [each.format(asset=asset, file=file) for each in WRITERS[command] if each != "--force"]
    done = call_cli(command, *arguments)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == f"usd_ros_bridge: {file} exists: --force overwrites it"
    assert file.read_text(encoding="utf-8") == "mine"


def test_a_link_stays_and_what_is_no_file_is_written_to(asset: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.urdf"
    target.write_text("old", encoding="utf-8")
    link, fifo = tmp_path / "link.urdf", tmp_path / "fifo"
    link.symlink_to("target.urdf")
    status, lines = write("urdf", asset, link)
    assert (status, lines[-1]) == (0, f"usd_ros_bridge: replaced {link} (3 bytes)")
    assert link.is_symlink()
    os.mkfifo(fifo)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(fifo.read_bytes()), daemon=True)
    reader.start()
    for file in (fifo, Path("/dev/null")):
        status, lines = write("urdf", asset, file)
        assert (status, [line for line in lines if line.startswith("usd_ros_bridge: replaced")]) == (0, [])
    reader.join(60.0)
    assert read == [target.read_bytes()]


@pytest.mark.process
def test_its_own_output_keeps_what_it_has(asset: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("before\n", encoding="utf-8")
    with log.open("ab") as stream:
        done = run_cli("urdf", asset, "-o", "/dev/stdout", stdout=stream)
    assert (done.returncode, "replaced" in done.stderr) == (0, False)
    text = log.read_text(encoding="utf-8")
    assert text.startswith("before\n<?xml")
    assert text.endswith("</robot>\n")


@pytest.fixture
def handlers() -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    yield
    assert [signal.getsignal(number) for number in numbers] == before


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("there", [True, False])
def test_a_signal_leaves_the_file_before(number: signal.Signals, there: bool, tmp_path: Path) -> None:
    file = tmp_path / "file"
    if there:
        file.write_bytes(b"old")
    before = contents(tmp_path)
    with pytest.raises(KeyboardInterrupt), output_file(file) as stream:  # noqa: PT012 - the end of it raises
        stream.write(b"half")
        signal.raise_signal(number)
    assert contents(tmp_path) == before


def test_a_file_that_appears_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "file"
    with pytest.raises(OptionError, match="is there"), output_file(file, refusal="is there"):
        file.write_bytes(b"mine")
    assert contents(tmp_path) == {file: b"mine"}


def test_copies_of_examples_say_what_they_replace(tmp_path: Path) -> None:
    assert call_cli("examples", "copy", "arm", tmp_path).stderr == ""
    done = call_cli("examples", "copy", "arm", tmp_path, "--force")
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)
    assert done.stderr.startswith(f"usd_ros_bridge: replaced {tmp_path / 'arm/base.usda'} (")


@pytest.mark.app
def test_a_sweep_replaces_no_files_of_others(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: make setup-tests")
    out = tmp_path / "results"
    out.mkdir()
    for name in ("report.html", "sweep.json"):
        (out / name).write_text('{"mine": true}', encoding="utf-8")
        done = call_cli("sweep", write_sweep(tmp_path, count=1), "--workers", "0", "-o", out)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
        assert [path.name for path in out.iterdir()] == [name]
        (out / name).unlink()


@pytest.mark.app
def test_import_says_what_it_replaces_and_keeps_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("USD_ROS_CONVERTER", str(ROOT / "test/support/recorded_converter/python"))
    write_page_files("your_urdf_moves.md", tmp_path)
    source, made = tmp_path / "elbow_arm.urdf", tmp_path / "made"
    assert call_cli("import", source, "-o", made).stderr == ""
    done = call_cli("import", source, "-o", made, "--force")
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)
    assert done.stderr.startswith(f"usd_ros_bridge: replaced {made} (")
    inside = made / "robot.urdf"
    shutil.copy(source, inside)
    assert call_cli("import", inside, "-o", made, "--force").returncode == 2
    assert inside.exists()
