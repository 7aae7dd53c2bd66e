"""The wheels of dist/ as a user gets them: in a clean environment without compilers, away from the repository.

`make test-dist` builds them first and shows what this prints. `make test` does not collect this folder: it installs
800 MB.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
PYTHON = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
TAG = f"cp{sys.version_info.major}{sys.version_info.minor}"
TOOLS = ("sh", "dirname", "uname")
COMPILERS = ("cc", "gcc", "g++", "c++", "clang")
WAIT_S = 60

pytestmark = pytest.mark.timeout(900)

SUBSCRIBER = """
import sys
import rclpy
from tf2_msgs.msg import TFMessage

rclpy.init()
node = rclpy.create_node("listener")
frames = set()
node.create_subscription(TFMessage, "/rover/tf", lambda m: frames.update(t.child_frame_id for t in m.transforms), 10)
until = node.get_clock().now().nanoseconds + int(float(sys.argv[1]) * 1e9)
while not frames and node.get_clock().now().nanoseconds < until:
    rclpy.spin_once(node, timeout_sec=1.0)
print("\\n".join(sorted(frames)))
sys.exit(0 if frames else 1)
"""
"""A plain client. It needs tf2_msgs of the wheel of the interfaces, too."""


@dataclass(frozen=True)
class Clean:
    """An environment that pip filled, and an empty directory to work in."""

    venv: Path
    directory: Path
    variables: dict[str, str]

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs an executable of the environment until its end."""
        return subprocess.run(
            [self.venv / program, *arguments], cwd=self.directory, env=self.variables,
            capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip

    @contextmanager
    def running(self, program: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """Starts an executable of the environment, and ends it if the test does not."""
        with (self.directory.parent / "output").open("w", encoding="utf-8") as output:
            process = subprocess.Popen(
                [self.venv / program, *arguments], cwd=self.directory, env=self.variables,
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip
            try:
                yield process
            finally:
                process.kill()
                process.wait()

    @property
    def output(self) -> str:
        """What the process of `running` printed."""
        return (self.directory.parent / "output").read_text(encoding="utf-8")


def only(pattern: str) -> Path:
    found = sorted(DIST.glob(pattern))
    assert len(found) == 1, f"{pattern} in {DIST}: {[path.name for path in found]}; make dist"
    return found[0]


@pytest.fixture(scope="module")
def bridge_wheel() -> Path:
    return only("usd_ros_bridge-*.whl")


@pytest.fixture(scope="module")
def interfaces_wheel() -> Path:
    """The one for this Python and for the distribution of this environment."""
    return only(f"usd_ros_bridge_interfaces-{rclpy_major()}.*-{TAG}-{TAG}-*.whl")


def rclpy_major() -> str:
    from importlib.metadata import version

    return version("ros-rclpy").split(".")[0]


def distro() -> str:
    return {"7": "jazzy", "9": "kilted"}[rclpy_major()]


@pytest.fixture(scope="module")
def clean(
    bridge_wheel: Path, interfaces_wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Clean]:
    """An environment in which nothing but `pip install --find-links dist "usd_ros_bridge[jazzy]"` was called."""
    base = tmp_path_factory.mktemp("clean")
    tools, directory, venv = base / "tools", base / "empty", base / "venv"
    for path in (tools, directory):
        path.mkdir()
    for name in TOOLS:
        (tools / name).symlink_to(shutil.which(name) or "")
    kept = {
        name: value
        for name, value in os.environ.items()
        # pip's own configuration (index, certificates, proxy), and the domain of these tests.
        if name in ("HOME", "LANG", "ROS_DOMAIN_ID", "ROS_AUTOMATIC_DISCOVERY_RANGE")
        or name.startswith(("PIP_", "SSL_"))
        or name.lower().endswith("_proxy")
    }
    variables = {**kept, "PATH": str(tools), "CC": "/bin/false", "CXX": "/bin/false"}
    clean = Clean(venv, directory, variables)
    try:
        subprocess.run([PYTHON, "-m", "venv", venv], env=variables, cwd=directory, check=True)
        begin = time.monotonic()
        done = clean.run(
            "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
            "--find-links", str(DIST), f"usd_ros_bridge[{distro()}]",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        print(f"\ninstalled {bridge_wheel.name} and {interfaces_wheel.name} with [{distro()}]")
        print(f"  in {time.monotonic() - begin:.0f} s, {megabytes(venv):.0f} MB on disk")
        # What processes keep for the next time is theirs alone.
        variables["XDG_CACHE_HOME"] = str(base / "cache")
        yield clean
    finally:
        # 800 MB: pytest would keep those of the last three runs.
        shutil.rmtree(base, ignore_errors=True)


def megabytes(path: Path) -> float:
    files = [file for file in path.rglob("*") if file.is_file() and not file.is_symlink()]
    return sum(file.stat().st_size for file in files) / 1e6


def test_wheels_are_for_any_python_and_for_this_one(bridge_wheel: Path, interfaces_wheel: Path) -> None:
    for path in (bridge_wheel, interfaces_wheel, only("usd_ros_bridge-*.tar.gz")):
        print(f"\n{path.name}: {path.stat().st_size / 1e6:.2f} MB", end="")
    assert bridge_wheel.name.endswith("-py3-none-any.whl")
    # auditwheel's finding, or this machine's own tag where its compiler asks for a newer glibc.
    assert re.search(r"-(manylinux_2_28|linux)_x86_64\.whl$", interfaces_wheel.name)


def test_wheel_of_the_sdist_equals_the_one_of_the_tree(bridge_wheel: Path, tmp_path: Path) -> None:
    """dist/ has the one of the sdist; here is one of what git knows of the tree."""
    tree = tmp_path / "tree"
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    for name in filter(None, listed):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree / name)
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "wheel", *options, "-w", str(tmp_path), str(tree)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    files = []
    for wheel in (bridge_wheel, next(tmp_path.glob("*.whl"))):
        with zipfile.ZipFile(wheel) as file:
            content = {
                info.filename: (info.CRC, info.external_attr >> 16 & 0o111) for info in file.infolist()
            }
        # It lists the others, and their order is free.
        files.append({name: value for name, value in content.items() if not name.endswith("/RECORD")})
    assert files[0] == files[1]
    assert any(name.endswith("/examples/rover/world.usda") for name in files[0])


def test_sdist_has_what_setup_py_reads() -> None:
    with tarfile.open(only("usd_ros_bridge-*.tar.gz")) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    pins = {f"tools/requirements/{name}.txt" for name in ("jazzy", "kilted")}
    assert {"setup.py", "setup.cfg", "package.xml", "README.md", "executables/bridge", *pins} <= names


def test_clean_environment_has_no_compiler(clean: Clean) -> None:
    assert [name for name in COMPILERS if shutil.which(name, path=clean.variables["PATH"])] == []


def test_requirements_are_met(clean: Clean) -> None:
    done = clean.run("bin/python", "-m", "pip", "check")
    assert done.returncode == 0, done.stdout


def test_the_example_package_of_tests_passes(clean: Clean, tmp_path: Path) -> None:
    """As a user runs it: the plug-in of pytest comes with the bridge."""
    done = clean.run("bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "pytest")
    assert done.returncode == 0, done.stderr
    copy = tmp_path / "rover_test"
    shutil.copytree(ROOT / "examples" / "testing", copy)
    done = clean.run("bin/python", "-m", "pytest", str(copy / "test"))
    print(f"\n{done.stdout.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_package_is_not_the_repository(clean: Clean) -> None:
    code = "import sys, usd_ros_bridge; print(usd_ros_bridge.__file__, *sys.path, sep='\\n')"
    done = clean.run("bin/python", "-c", code)
    module, *paths = done.stdout.splitlines()
    assert Path(module).is_relative_to(clean.venv), done.stderr
    assert [path for path in paths if path and Path(path).is_relative_to(ROOT)] == []


def test_ament_index_finds_the_packages(clean: Clean) -> None:
    code = (
        "from ament_index_python.packages import get_package_prefix as f\n"
        "names = ('usd_ros_bridge', 'tf2_msgs', 'control_msgs', 'simulation_interfaces', 'rviz_resource_interfaces')\n"
        "print(*map(f, names), sep='\\n')"
    )
    done = clean.run("bin/python", "-c", code)
    assert set(done.stdout.split()) == {str(clean.venv)}, done.stderr
    assert (clean.venv / "share" / "usd_ros_bridge" / "launch" / "bridge.launch.py").is_file()


def test_executables_are_where_ros2_run_looks_and_bin_has_no_bridge(clean: Clean) -> None:
    folder = clean.venv / "lib" / "usd_ros_bridge"
    assert {path.name for path in folder.iterdir()} == {"bridge", "robot_state_publisher", "usd_ros_bridge"}
    for path in folder.iterdir():
        done = clean.run(f"lib/usd_ros_bridge/{path.name}", "--help")
        assert done.returncode == 0, done.stderr
        assert path.name in done.stdout
    assert not (clean.venv / "bin" / "bridge").exists()


def test_python_m_is_the_command_line(clean: Clean) -> None:
    by_module = clean.run("bin/python", "-m", "usd_ros_bridge", "--help")
    assert by_module.returncode == 0, by_module.stderr
    assert by_module.stdout == clean.run("bin/usd_ros_bridge", "--help").stdout


MASS = """
import sys
from usd_ros_bridge import load_plan
(body,) = load_plan(sys.argv[1], physics=True).physics.bodies
print(body.inertial.mass)
"""


def test_a_hull_weighs_what_it_encloses(clean: Clean) -> None:
    """A corner of the unit cube, 1000 kg / m^3: without what finds hulls it would weigh as its box, 1000 kg."""
    asset = ROOT / "test" / "assets" / "physics_tetrahedron.usda"
    done = clean.run("bin/python", "-c", MASS, str(asset))
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(1000.0 / 6.0)


def test_doctor_finds_no_error(clean: Clean) -> None:
    done = clean.run("bin/usd_ros_bridge", "doctor", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = {row["name"]: row["status"] for row in json.loads(done.stdout)["checks"]}
    assert {found[name] for name in ("ROS 2", "rmw", "interfaces", "OpenUSD", "MuJoCo")} == {"ok"}


def test_installed_examples_are_listed(clean: Clean) -> None:
    done = clean.run("bin/usd_ros_bridge", "examples")
    assert done.returncode == 0, done.stderr
    listed = {line.split()[0] for line in done.stdout.splitlines()}
    folders = {path.name for path in (ROOT / "examples").iterdir() if path.is_dir()}
    # Those are projects of their own, to copy from the repository.
    assert listed == folders - {"plugins", "testing"}


def test_installed_example_runs_until_ctrl_c(clean: Clean) -> None:
    begin = time.monotonic()
    with clean.running("bin/usd_ros_bridge", "run", "--example", "rover") as bridge:
        heard = clean.run("bin/python", "-c", SUBSCRIBER, str(WAIT_S))
        assert heard.returncode == 0, f"{heard.stderr}\n{clean.output}"
        print(f"\nfirst /rover/tf after {time.monotonic() - begin:.1f} s", end="")
        bridge.send_signal(signal.SIGINT)
        assert bridge.wait(timeout=WAIT_S) == 0, clean.output
    assert "base_link" in {frame.rpartition("/")[2] for frame in heard.stdout.split()}
    assert "Traceback" not in clean.output
    # It leaves nothing where it was called.
    assert list(clean.directory.iterdir()) == []
