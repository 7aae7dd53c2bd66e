"""Set up the virtual environment of `make run`, the tests and `make lint`, and keep it current.

Standard library only: it runs before anything is installed. Each step has a key, a hash of its inputs, in
<venv>/.setup/state.json. A step with a known key is not repeated. A key is stored at the end of its step, so an
interruption repeats only that step. After an interrupted pip, the environment is created again, because pip cannot
repair a partial installation.

The wheel of the ROS interfaces takes most of the time. The user's cache (wheel_cache.py) keeps it under a hash of what
it is made from, so that other clones need not build it.

If a ROS 2 environment is sourced and this Python can import its rclpy, the environment is created over it
(--system-site-packages) and no ROS wheel is installed.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from wheel_cache import CacheError, WheelCache, default_directory

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "tools" / "requirements"
BUILDER = ROOT / "tools" / "build_interfaces.py"
GENERATORS = ROOT / "tools" / "message_packages.py"
DEFINITIONS = (".action", ".msg", ".srv", ".xml")
PREFIX_MODULE = ROOT / "tools" / "venv_ros_prefix.py"
# What --with installs, in the order of the steps. `all` needs `test`, too.
EXTRAS = {
    "test": "what `make test` needs",
    "all": "what all tests need",
    "lint": "what `make lint` and `make format` need",
}
DISTROS = tuple(sorted(path.stem for path in REQUIREMENTS.glob("*.txt") if path.stem not in ("run", *EXTRAS)))
# Maintained to May 2029.
DEFAULT_DISTRO = "jazzy"
# The interpreter behind a virtual environment that happens to be active, ours included.
PYTHON = getattr(sys, "_base_executable", "") or sys.executable
# Variables by which an outer environment would reach into this one.
FOREIGN = (
    "PYTHONHOME",
    "VIRTUAL_ENV",
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_ROOT",
    "_ROS_WHEELS_BOOTSTRAP_COMPLETE",
)


# What the package installs beside its modules, and the names that `ros2 run` knows.
SHARED_FOLDERS = ("launch", "config", "examples")
EXECUTABLES = ("bridge", "robot_state_publisher", "usd_ros_bridge")
# What pip prints where it cannot reach an index, and how it then ends.
UNREACHABLE = re.compile(
    r"connection broken by|Max retries exceeded|Could not fetch URL|Read timed out|ProtocolError"
)
UNAVAILABLE = re.compile(
    r"^ERROR: (No matching distribution|Could not install packages due to an OSError|Exception:)",
    re.MULTILINE,
)


class SetupError(Exception):
    """Error of the set-up: one line with the cause and the remedy."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Set up the virtual environment of usd_ros_bridge.")
    parser.add_argument("--venv", default=".venv", help="its directory, relative to the repository")
    parser.add_argument("--distro", default="", help=f"ROS 2 distribution: {', '.join(DISTROS)}")
    parser.add_argument(
        "--with", action="append", default=[], choices=EXTRAS, dest="extras",
        help="install more: " + "; ".join(f"{name}: {text}" for name, text in EXTRAS.items()),
    )  # fmt: skip
    options = parser.parse_args()
    try:
        with lock():
            Setup(ROOT / options.venv, options.distro, options.extras).run()
    except (SetupError, OSError) as error:
        print(f"set-up: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nset-up: interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


@contextlib.contextmanager
def lock() -> Iterator[None]:
    """Two set-ups in one clone wait for each other; the lock goes with the process that held it."""
    descriptor = os.open(ROOT / "tools", os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("set-up: another one is running here, waiting for it", file=sys.stderr)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class Setup:
    """The steps, in order, over one virtual environment."""

    def __init__(self, venv: Path, distro: str, extras: Sequence[str]) -> None:
        self.venv = venv
        self.directory = venv / ".setup"
        self.sourced = sourced_distro()
        if self.sourced and distro not in ("", self.sourced):
            raise SetupError(
                f"ROS={distro} was asked for, but ROS 2 {self.sourced} is sourced: use a shell without it"
            )
        if not self.sourced and (distro or DEFAULT_DISTRO) not in DISTROS:
            raise SetupError(f"there are no wheels for ROS={distro}, only for {' and '.join(DISTROS)}")
        self.distro = self.sourced or distro or DEFAULT_DISTRO
        self.bin = venv / "bin"
        origin = [str(venv), os.path.realpath(PYTHON), sys.version, self.distro, str(bool(self.sourced))]
        venv_key = digest(*origin)
        run_key = digest(venv_key, *map(text_of, self.requirement_files()))
        self.interfaces_key = ""
        self.kept: Path | None = None
        self.notes: list[str] = []
        definitions = sorted(path for path in (ROOT / "interfaces").rglob("*") if path.suffix in DEFINITIONS)
        package = text_of(ROOT / "usd_ros_bridge" / "__init__.py")
        version = re.findall(r"^__version__ = .*$", package, re.MULTILINE)
        project_files = [ROOT / "setup.py", ROOT / "setup.cfg", PREFIX_MODULE]
        steps: list[tuple[str, str, str, Callable[[], None]]] = [
            ("venv", "virtual environment", venv_key, self.make_venv),
            ("packages", self.packages_title(), run_key, self.install_packages),
        ]
        if not self.sourced:
            files = [*definitions, BUILDER, GENERATORS, PREFIX_MODULE, REQUIREMENTS / f"{self.distro}.txt"]
            parts = [f"{path.relative_to(ROOT)}\n{text_of(path)}" for path in files]
            # Without the place of this clone and of its Python: other clones have the same wheel.
            numpy = re.findall(r"^numpy.*$", text_of(REQUIREMENTS / "run.txt"), re.MULTILINE)
            origin = [sys.version, sysconfig.get_platform(), self.distro, *version, *numpy]
            self.interfaces_key = digest(*origin, *parts)
            title = "interfaces tf2_msgs, control_msgs, simulation_interfaces, rviz_resource_interfaces"
            key = digest(venv_key, self.interfaces_key)
            steps.append(("interfaces", title, key, self.install_interfaces))
        key = digest(venv_key, *version, *map(text_of, project_files), *shared_files())
        steps.append(("project", "usd_ros_bridge itself, editable", key, self.install_project))
        wanted = {*extras, "test"} if "all" in extras else set(extras)
        for name, title in EXTRAS.items():
            if name in wanted:
                key = digest(venv_key, text_of(REQUIREMENTS / f"{name}.txt"))
                steps.append((name, title, key, partial(self.install_extra, name)))
        self.steps = steps

    def requirement_files(self) -> list[Path]:
        return [REQUIREMENTS / "run.txt"] + ([] if self.sourced else [REQUIREMENTS / f"{self.distro}.txt"])

    def packages_title(self) -> str:
        return (
            "usd-core" if self.sourced else f"usd-core, and ROS 2 {self.distro.capitalize()} from its wheels"
        )

    def run(self) -> None:
        begin = time.monotonic()
        self.check_venv_is_ours()
        state = self.read_state()
        broken = "running" in state
        if broken or state.get("venv") != self.steps[0][2]:
            state = {}
        if not (self.bin / "usd_ros_bridge").exists():
            state.pop("project", None)
        if not (self.bin / "python").exists():
            state = {}
        todo = [step for step in self.steps if state.get(step[0]) != step[2]]
        if not todo:
            return
        names = {step[0] for step in todo}
        if "interfaces" in names:
            self.kept = self.kept_interfaces()
        self.check_machine(names)
        base = "over the sourced one" if self.sourced else "from wheels"
        where = os.path.relpath(self.venv, ROOT)
        print(
            f"set-up: ROS 2 {self.distro.capitalize()} {base}, Python {platform.python_version()}, in {where}",
            file=sys.stderr, flush=True,
        )  # fmt: skip
        for number, (name, title, key, action) in enumerate(todo, 1):
            uses_pip = name == "packages" or name in EXTRAS
            if name != "venv":
                state.pop(name, None)
                self.write_state({**state, "running": name} if uses_pip else state)
            way = ", from the cache" if self.kept else ", by the rosidl generators"
            shown = title + way if name == "interfaces" else title
            try:
                with progress(f"[{number}/{len(todo)}] {shown}", self.log(name)):
                    action()
            except SetupError:
                if uses_pip and not has_installed(self.log(name)):
                    self.write_state(state)
                raise
            state[name] = key
            self.write_state(state)
        for note in self.notes:
            print(f"set-up: {note}", file=sys.stderr)
        print(f"set-up: ready in {time.monotonic() - begin:.1f} s", file=sys.stderr, flush=True)

    # What is there

    def check_venv_is_ours(self) -> None:
        empty = not self.venv.exists() or (self.venv.is_dir() and not any(self.venv.iterdir()))
        if not empty and not self.directory.is_dir():
            raise SetupError(
                f"{self.venv} exists but was not made by this set-up: move it away, or choose VENV=name"
            )

    def read_state(self) -> dict[str, str]:
        try:
            return dict(json.loads(text_of(self.directory / "state.json")))
        except (OSError, ValueError):
            return {}

    def write_state(self, state: dict[str, str]) -> None:
        temporary = self.directory / "state.json.new"
        temporary.write_text(json.dumps(state, indent=1), encoding="utf-8")
        temporary.replace(self.directory / "state.json")

    def log(self, step: str) -> Path:
        return self.directory / f"{step}.log"

    def check_machine(self, names: set[str]) -> None:
        if not self.sourced and (sys.platform != "linux" or platform.machine() != "x86_64"):
            raise SetupError(
                f"the ROS 2 wheels are for x86-64 Linux, this is {platform.machine()} {sys.platform}: "
                "source a ROS 2 installation first"
            )
        if not self.sourced and sysconfig.get_config_var("Py_GIL_DISABLED"):
            raise SetupError(
                f"the ROS 2 wheels need a Python with the GIL, {PYTHON} has none: name another, PYTHON=path"
            )
        if "venv" in names:
            self.check_venv_module()
        if "interfaces" in names and not self.kept:
            self.check_compilers()

    def check_venv_module(self) -> None:
        check = subprocess.run(
            [PYTHON, "-c", "import ensurepip, venv"], env=environment(), capture_output=True, check=False
        )
        if check.returncode:
            raise SetupError(f"{PYTHON} has no venv and ensurepip: {debian(f'{python_name()}-venv')}")

    def check_compilers(self) -> None:
        include = sysconfig.get_paths()["include"]
        for compiler, language, header, package in (
            ("gcc", "c", "stdio.h", "libc6-dev"),
            ("g++", "c++", "string", "g++"),
            ("gcc", "c", "Python.h", f"{python_name()}-dev"),
        ):
            if shutil.which(compiler) is None:
                raise SetupError(
                    f"{compiler} is missing, the ROS interfaces are built with it: {debian(compiler)}"
                )
            found = subprocess.run(
                [compiler, "-fsyntax-only", f"-I{include}", "-x", language, "-"],
                input=f"#include <{header}>\n", capture_output=True, text=True, check=False,
            )  # fmt: skip
            if found.returncode:
                raise SetupError(f"{compiler} does not find {header} for {PYTHON}: {debian(package)}")

    # The steps

    def make_venv(self) -> None:
        if self.venv.exists():
            # The marker goes last, so that a deletion that was cut off is still known as ours.
            for path in self.venv.iterdir():
                if path != self.directory:
                    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            (self.directory / "state.json").unlink(missing_ok=True)
        self.directory.mkdir(parents=True, exist_ok=True)
        flags = ["--system-site-packages"] if self.sourced else []
        self.call("venv", PYTHON, "-m", "venv", *flags, str(self.venv))

    def install_packages(self) -> None:
        if not self.sourced:
            self.pip("packages", *(f"-r{file}" for file in self.requirement_files()))
            return
        self.pip_over_sourced("packages", "run.txt")
        for package in ("tf2_msgs", "control_msgs", "simulation_interfaces"):
            if not any((Path(prefix) / "share" / package).is_dir() for prefix in ament_prefixes()):
                apt = f"ros-{self.distro}-{package.replace('_', '-')}"
                print(f"\nset-up: {package} is not installed (apt install {apt}): its interfaces stay disabled",
                      file=sys.stderr)  # fmt: skip

    def install_extra(self, name: str) -> None:
        if self.sourced:
            self.pip_over_sourced(name, f"{name}.txt")
        else:
            # Together with the rest, so that nothing that runs is moved to another version.
            file = REQUIREMENTS / f"{name}.txt"
            self.pip(name, f"-r{file}", *(f"-c{each}" for each in self.requirement_files()))

    def pip_over_sourced(self, step: str, file: str) -> None:
        """Installs what the sourced environment lacks; its numpy stays, its message packages are built against it."""
        lines = [line.split("#")[0].strip() for line in text_of(REQUIREMENTS / file).splitlines()]
        names = [line for line in lines if line and not line.startswith("numpy")]
        wanted = [line if line.startswith("usd-core") else re.split("==|;", line)[0] for line in names]
        # The oldest that can install a project editable from its pyproject.toml.
        wanted = ["setuptools>=64" if name == "setuptools" else name for name in wanted]
        # launch_testing's plugin, which comes with ROS 2, does not work with pytest 9.
        wanted = ["pytest<9" if name == "pytest" else name for name in wanted]
        numpy = subprocess.run(
            [self.bin / "python", "-c", "import numpy; print(numpy.__version__)"],
            env=environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        constraint = self.directory / "constraints.txt"
        constraint.write_text(
            f"numpy=={numpy.stdout.strip()}\n" if numpy.returncode == 0 else "", encoding="utf-8"
        )
        self.pip(step, f"-c{constraint}", *dict.fromkeys(wanted))

    def kept_interfaces(self) -> Path | None:
        """The wheel of the interfaces, from the user's cache. Says why one that is there is not used."""
        cache = default_directory()
        try:
            return WheelCache(cache).get(self.interfaces_key) if cache else None
        except CacheError as error:
            print(f"set-up: {error}: the interfaces are built again", file=sys.stderr)
            return None

    def install_interfaces(self) -> None:
        """Installs the wheel of the interfaces. It also stays in .setup/wheels, for `make dist`."""
        wheels = self.directory / "wheels"
        shutil.rmtree(wheels, ignore_errors=True)
        wheels.mkdir()
        if self.kept:
            shutil.copyfile(self.kept, wheels / self.kept.name)
        else:
            command = [
                str(self.bin / "python"),
                str(BUILDER),
                "--distro",
                self.distro,
                "--wheel-dir",
                str(wheels),
            ]
            self.call("interfaces", *command)
        wheel = next(wheels.glob("*.whl"))
        # What an interrupted run left half-written would stop pip.
        for information in self.site_packages().glob("usd_ros_bridge_interfaces-*.dist-info"):
            if not (information / "RECORD").exists():
                shutil.rmtree(information)
        self.pip("interfaces-install", "--no-deps", "--force-reinstall", str(wheel))
        cache = default_directory()
        if cache and not self.kept:
            try:
                WheelCache(cache).put(self.interfaces_key, wheel)
            except CacheError as error:
                self.notes.append(f"{error}: other clones will build the interfaces again")

    def install_project(self) -> None:
        packages = self.site_packages()
        # What an interrupted run left half-written would stop pip: it is ours, and small, so begin anew.
        for pattern in ("usd_ros_bridge-*.dist-info", "__editable__*usd_ros_bridge*"):
            for path in packages.glob(pattern):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.pip("project", "--no-deps", "--no-build-isolation", f"-e{ROOT}")
        if self.sourced:
            # As in the wheel of the interfaces, which is not installed here.
            shutil.copyfile(PREFIX_MODULE, packages / "_usd_ros_bridge_prefix.py")
            (packages / "usd_ros_bridge_prefix.pth").write_text(
                "import _usd_ros_bridge_prefix\n", encoding="utf-8"
            )
        self.register_in_ament_index()

    def site_packages(self) -> Path:
        return next((self.venv / "lib").glob("python3*/site-packages"))

    def register_in_ament_index(self) -> None:
        """Gives the editable installation what `colcon build` installs: share files, the index entry, `ros2 run`."""
        share = self.venv / "share" / "usd_ros_bridge"
        executables = self.venv / "lib" / "usd_ros_bridge"
        index = self.venv / "share" / "ament_index" / "resource_index" / "packages"
        for directory in (share, executables, index):
            directory.mkdir(parents=True, exist_ok=True)
        for name in SHARED_FOLDERS:
            path = share / name
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
        # Folders as such, and links to files: `ros2 launch` looks for its files by os.walk, which follows no links.
        links = {share / name: ROOT / name for name in ("package.xml", *shared_files())}
        (self.bin / "bridge").unlink(
            missing_ok=True
        )  # Of earlier versions: iproute2 has a program of that name.
        for name in EXECUTABLES:
            (executables / name).unlink(missing_ok=True)
            shutil.copy(ROOT / "executables" / name, executables / name)
        for link, target in links.items():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(target)
        (index / "usd_ros_bridge").write_text("", encoding="utf-8")

    def pip(self, step: str, *arguments: str) -> None:
        command = ["-m", "pip", "--disable-pip-version-check", "install", "--no-input", "--progress-bar=off"]
        self.call(step, str(self.bin / "python"), *command, *arguments)

    def call(self, step: str, *command: str) -> None:
        with self.log(step).open("w", encoding="utf-8") as log:
            status = subprocess.run(
                command, stdout=log, stderr=log, cwd=ROOT, env=environment(), check=False
            ).returncode
        if status:
            raise SetupError(
                failure(self.log(step), " ".join(Path(part).name for part in command[:3]), status)
            )


def failure(log: Path, command: str, status: int) -> str:
    """Return one line about a command that failed, from what it printed."""
    output = log.read_text(encoding="utf-8", errors="replace")
    if UNREACHABLE.search(output) and UNAVAILABLE.search(output):
        used = re.search("^Looking in indexes: (.*)$", output, re.MULTILINE)
        indexes = re.findall(r"https?://[^\s,]+", used[1]) if used else []
        return (
            f"cannot reach the package index {' or '.join(indexes) or 'pypi.org'}: check the network, or name a proxy "
            f"(HTTPS_PROXY) or another index (PIP_INDEX_URL), and repeat the command; pip's output: {log}"
        )
    lines = output.strip().splitlines()
    errors = [line for line in lines if line.startswith("ERROR") or "rror: " in line]
    last = (errors or lines or [f"exit status {status}"])[-1].strip()
    return f"{command} failed ({last}); its output: {log}"


def has_installed(log: Path) -> bool:
    """Return whether pip had begun to change the environment: it fetches everything before it installs anything."""
    return "\nInstalling collected packages" in log.read_text(encoding="utf-8", errors="replace")


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def shared_files() -> list[str]:
    """Return the files of the shared folders, relative to the repository."""
    found = [path for folder in SHARED_FOLDERS for path in (ROOT / folder).rglob("*")]
    files = [path for path in found if path.is_file() and "__pycache__" not in path.parts]
    return sorted(path.relative_to(ROOT).as_posix() for path in files)


def sourced_distro() -> str:
    """The distribution of the sourced ROS 2 environment that this Python can use; empty where there is none."""
    distro = os.environ.get("ROS_DISTRO", "")
    if not distro or not ament_prefixes():
        return ""
    code = "import rclpy; print(rclpy.__file__)"
    found = subprocess.run(
        [PYTHON, "-c", code], env=environment(), capture_output=True, text=True, check=False
    )
    if found.returncode == 0:
        return "" if found.stdout.startswith(str(ROOT)) else distro
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if any(path.startswith(prefix) for path in paths for prefix in ament_prefixes()):
        raise SetupError(
            f"ROS 2 {distro} is sourced, but {PYTHON} ({platform.python_version()}) cannot import its rclpy: "
            "name its Python with PYTHON=path, or use a shell without it"
        )
    return ""


def ament_prefixes() -> list[str]:
    return [path for path in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if path]


def environment() -> dict[str, str]:
    variables = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    if not (os.environ.get("ROS_DISTRO") and ament_prefixes()):
        variables.pop("PYTHONPATH", None)
    return {**variables, "PIP_USER": "0"}


def digest(*parts: str) -> str:
    # Paths that the locale cannot decode have surrogates.
    return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()


def python_name() -> str:
    return f"python3.{sys.version_info.minor}"


def debian(package: str) -> str:
    if package.startswith("python") and sys.base_prefix != "/usr":
        return f"install its {package.partition('-')[2]} files, or name another Python with PYTHON=path"
    return f"install it (Debian, Ubuntu: apt install {package})"


@contextlib.contextmanager
def progress(title: str, log: Path) -> Iterator[None]:
    """Shows a step with its running time: one line that counts on a terminal, a line now and then elsewhere."""
    begin = time.monotonic()
    done = threading.Event()
    terminal = sys.stderr.isatty()

    def show() -> None:
        while not done.wait(0.5 if terminal else 20):
            text = f"{title} ... {time.monotonic() - begin:.0f} s{fetched(log)}"
            print(
                f"\r\033[K{text}" if terminal else text,
                end="" if terminal else "\n",
                file=sys.stderr,
                flush=True,
            )

    print(title, end="" if terminal else "\n", file=sys.stderr, flush=True)
    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        if sys.exc_info()[0] is None:
            text = f"{title}: {time.monotonic() - begin:.1f} s"
            print(f"\r\033[K{text}" if terminal else text, file=sys.stderr, flush=True)


def fetched(log: Path) -> str:
    """Return the number of packages that pip has processed, from its output."""
    try:
        count = log.read_text(encoding="utf-8", errors="replace").count("\nCollecting ")
    except OSError:
        return ""
    return f", {count} packages" if count else ""


if __name__ == "__main__":
    sys.exit(main())
