"""Build message packages into wheels with the rosidl generators of the ROS wheels: no CMake, no colcon.

    python tools/message_packages.py FOLDER... --wheel-dir DIR

Run it with the Python of an environment that has the ROS wheels: `pip install "usd_ros_bridge[jazzy]" wheel`. It needs
gcc, g++ and Python's headers, and imports nothing of this repository. Each FOLDER has a package.xml, and .msg, .srv or
.action files in msg/, srv/ or action/. The wheel makes their types known to rclpy, to the ament index and to other
message packages.

It does what rosidl_generate_interfaces() does in CMake for the parts that rclpy on Fast DDS uses: C structures, Python
modules, the C type supports of Fast DDS and of introspection.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import zip_longest
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

PREFIX = Path(sys.prefix)
TYPE_SUPPORTS = ("rosidl_typesupport_fastrtps_c", "rosidl_typesupport_introspection_c")
KINDS = ("action", "msg", "srv")
RUNTIME = (
    "ros-rosidl-default-runtime",
    "ros-rosidl-generator-py",
    "ros-rosidl-parser",
    "ros-wheels-bootstrapper",
)
"""What the generated code imports and links, and what makes its libraries found."""


class PackageError(Exception):
    """A folder is no message package, or a compiler is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelInfo:
    """Metadata of a wheel.

    Attributes:
        name: Name of the distribution.
        version: Its version.
        summary: One line.
        license: SPDX expression.
        license_file: The licence's text, None for none.
        modules: More modules of the wheel, by file name.
    """

    name: str
    version: str
    summary: str
    license: str
    license_file: Path | None = None
    modules: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Package:
    """A message package: where its definitions are and where its build goes."""

    name: str
    manifest: Path
    depends: tuple[str, ...]
    definitions: tuple[Path, ...]
    build: Path

    @property
    def idl_tuples(self) -> list[str]:
        """Return the IDL files, as the generators take them."""
        return [f"{self.build / 'idl'}:{path.parent.name}/{path.stem}.idl" for path in self.definitions]


@dataclass(frozen=True, slots=True)
class Staged:
    """The content of the wheel, as folders: what goes beside modules, and what goes into the prefix."""

    modules: Path
    prefix: Path

    @property
    def index(self) -> Path:
        """Return the folder of the ament index."""
        return self.prefix / "share" / "ament_index" / "resource_index"


def main() -> int:
    """Build the wheel of the folders of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="folder with a package.xml")
    parser.add_argument("--wheel-dir", type=Path, required=True, help="where the wheel goes")
    options = parser.parse_args()
    try:
        check_folders(options.folders)
        wheel = build_wheel(options.folders, describe_wheel(options.folders), options.wheel_dir)
    except (subprocess.CalledProcessError, PackageError, ImportError, OSError) as error:
        print(f"{', '.join(map(str, options.folders))}: {_one_line(error)}", file=sys.stderr)
        return 1
    print(wheel)
    return 0


def check_folders(folders: Sequence[Path]) -> None:
    """Check what the generators would not find, or say in many lines.

    Raises:
        PackageError: A folder is no message package, or a compiler is missing.
    """
    for folder in folders:
        if not (folder / "package.xml").is_file():
            raise PackageError(f"there is no {folder / 'package.xml'}")
        if not any(path for kind in KINDS for path in folder.glob(f"{kind}/*.{kind}")):
            raise PackageError(f"{folder} has no definitions, such as msg/Heat.msg")
    for compiler in ("gcc", "g++"):
        if shutil.which(compiler) is None:
            raise PackageError(f"{compiler} is not installed")


def _one_line(error: Exception) -> str:
    """Return the line that says what is wrong: generators and compilers say it last, or behind `error:`."""
    if not isinstance(error, subprocess.CalledProcessError):
        return str(error)
    lines = [line.strip() for line in f"{error.stdout}\n{error.stderr}".splitlines() if line.strip()]
    faults = [line for line in lines if "error:" in line]
    unknown = re.fullmatch(r"KeyError: '(\w+)'", lines[-1]) if lines else None
    if unknown:
        return (
            f"package.xml has no <depend>{unknown[1]}</depend> for a field, or {unknown[1]} is not installed"
        )
    return (faults or lines or [f"{error.cmd[0]} failed"])[0 if faults else -1]


def describe_wheel(folders: Sequence[Path]) -> WheelInfo:
    """Return the metadata of a wheel of message packages: name, version and licence of the first one."""
    manifests = [_read_manifest(folder) for folder in folders]
    first, names = manifests[0], [_text(each, "name") for each in manifests]
    return WheelInfo(
        name=names[0],
        version=_text(first, "version"),
        summary=f"ROS 2 messages of {', '.join(names)}",
        license=_text(first, "license"),
    )


def build_wheel(
    folders: Sequence[Path], info: WheelInfo, wheel_dir: Path, *, overlays: Sequence[Path] = ()
) -> Path:
    """Generate, compile and pack message packages.

    Args:
        folders: Folders of the packages; those that others need come first.
        info: Metadata of the wheel.
        wheel_dir: Where the wheel goes.
        overlays: A folder for each package, whose definitions replace those of the same name; it need not exist.

    Returns:
        Path of the wheel.

    Raises:
        CalledProcessError: A generator or a compiler failed. `failure_of` says why.
    """
    with tempfile.TemporaryDirectory(prefix="interfaces-") as temporary:
        unpacked = Path(temporary) / "wheel"
        staged = Staged(unpacked, unpacked / f"{info.name}-{info.version}.data" / "data")
        packages = []
        for folder, overlay in zip_longest(folders, overlays):
            package = read_package(folder, Path(temporary) / "build", overlay)
            generate(package)
            build(package)
            stage(package, staged)
            print(f"{package.name}: {len(package.definitions)} interfaces", flush=True)
            packages.append(package)
        return pack(staged, packages, info, wheel_dir)


def failure_of(error: subprocess.CalledProcessError) -> str:
    """Return the command that failed, and what it printed."""
    return f"{' '.join(map(str, error.cmd))}\n{error.stdout}{error.stderr}"


def read_package(folder: Path, build_dir: Path, overlay: Path | None = None) -> Package:
    """Read a package, with the definitions of an overlay in front where they exist."""
    tree = _read_manifest(folder)
    name = _text(tree, "name")
    build = build_dir / name
    found: dict[tuple[str, str], Path] = {}
    for base in (folder, *([overlay] if overlay is not None else [])):
        for kind in KINDS:
            found.update({(kind, path.name): path for path in base.glob(f"{kind}/*.{kind}")})
    definitions = []
    for (kind, file_name), path in sorted(found.items()):
        target = build / "definitions" / kind / file_name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        definitions.append(target)
    depends = {element.text or "" for element in tree.iter("depend")}
    # What every action and service is made of beyond its own definition.
    depends |= {"action_msgs", "service_msgs"}
    return Package(name, folder / "package.xml", closure(depends), tuple(definitions), build)


def _read_manifest(folder: Path) -> ElementTree.ElementTree[Any]:
    try:
        return ElementTree.parse(folder / "package.xml")
    except ElementTree.ParseError as error:
        raise PackageError(f"{folder / 'package.xml'} is no XML: {error}") from error


def _text(tree: ElementTree.ElementTree[Any], tag: str) -> str:
    """Return the text of an element that a package.xml has."""
    element = tree.find(tag)
    if element is None or not element.text:
        raise PackageError(f"package.xml has no <{tag}>")
    return element.text.strip()


def closure(names: Iterable[str]) -> tuple[str, ...]:
    """Return the interface packages among these and their dependencies, as the ament index has them."""
    index = PREFIX / "share" / "ament_index" / "resource_index"
    done: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name in done or not (index / "rosidl_interfaces" / name).exists():
            continue
        done.add(name)
        manifest = ElementTree.parse(PREFIX / "share" / name / "package.xml")
        todo += [element.text or "" for tag in ("depend", "build_depend") for element in manifest.iter(tag)]
    return tuple(sorted(done))


def generate(package: Package) -> None:
    """Run rosidl_adapter, then every generator on its own arguments file, as rosidl_cmake would."""
    adapted = package.build / "adapter.json"
    tuples = [f"{package.build / 'definitions'}:{p.parent.name}/{p.name}" for p in package.definitions]
    adapted.write_text(json.dumps({"non_idl_tuples": tuples}), encoding="utf-8")
    idl = package.build / "idl"
    inputs: list[str | Path] = ["--package-name", package.name, "--arguments-file", adapted]
    outputs: list[str | Path] = ["--output-dir", idl, "--output-file", idl / "tuples"]
    run(sys.executable, "-m", "rosidl_adapter", *inputs, *outputs)
    run_generator(package, "rosidl_generator_type_description")
    generators: list[tuple[str, ...]] = [
        ("rosidl_generator_c",),
        ("rosidl_generator_py", "--typesupport-impls", ";".join(("rosidl_typesupport_c", *TYPE_SUPPORTS))),
        ("rosidl_typesupport_c", "--typesupports", *TYPE_SUPPORTS),
        *((name,) for name in TYPE_SUPPORTS),
    ]
    in_parallel([partial(run_generator, package, *arguments) for arguments in generators])


def run_generator(package: Package, name: str, *arguments: str) -> None:
    """Run one generator on all definitions."""
    output = package.build / name / package.name
    templates = PREFIX / "share" / name / "resource"
    share = PREFIX / "share"
    described = package.build / "rosidl_generator_type_description" / package.name
    content = {
        "package_name": package.name,
        "output_dir": str(output),
        "template_dir": str(templates),
        "idl_tuples": package.idl_tuples,
        "ros_interface_dependencies": [
            f"{dependency}:{path}"
            for dependency in package.depends
            for path in (share / dependency).glob("*/*.idl")
        ],
        "ros_interface_files": [str(path) for path in package.definitions],
        "target_dependencies": [],
        "include_paths": [f"{dependency}:{share / dependency}" for dependency in package.depends],
        "type_description_tuples": [
            f"{path.parent.name}/{path.stem}.idl:{described / path.parent.name / path.stem}.json"
            for path in package.definitions
        ],
    }
    file = package.build / f"{name}.json"
    file.write_text(json.dumps(content), encoding="utf-8")
    output.mkdir(parents=True, exist_ok=True)
    script = PREFIX / "lib" / name / name
    run(sys.executable, script, "--generator-arguments-file", file, *arguments)
    for template in templates.glob("*__visibility_control.h.in"):
        header = output / "msg" / template.name[: -len(".in")]
        header.parent.mkdir(exist_ok=True)
        text = template.read_text(encoding="utf-8").replace("@PROJECT_NAME_UPPER@", package.name.upper())
        header.write_text(text.replace("@PROJECT_NAME@", package.name), encoding="utf-8")


def build(package: Package) -> None:
    """Compile what was generated into lib<package>__<part>.so and the Python extension modules."""
    (package.build / "lib").mkdir()
    parts = ("rosidl_generator_c", *TYPE_SUPPORTS, "rosidl_typesupport_c")
    sources = {part: in_few_files(sorted((package.build / part).rglob("*.c*"))) for part in parts}
    python = package.build / "rosidl_generator_py" / package.name
    extensions = {path.name.split(".")[2]: path for path in sorted(python.glob("_*_s.ep.*.c"))}
    sources["rosidl_generator_py"] = sorted(python.glob("*/_*_s.c"))
    every = [path for files in sources.values() for path in files] + list(extensions.values())
    # The C++ files take longest: started first, they do not end last.
    every.sort(key=lambda path: path.suffix != ".cpp")
    in_parallel([partial(compile_one, package, path) for path in every])

    def link_part(part: str, *siblings: str) -> None:
        names = [f"{dependency}__{part}" for dependency in package.depends]
        link(package, package.build / "lib" / f"lib{package.name}__{part}.so", sources[part], siblings, names)

    link_part("rosidl_generator_c")
    in_parallel([partial(link_part, name, "rosidl_generator_c") for name in TYPE_SUPPORTS])
    link_part("rosidl_typesupport_c", "rosidl_generator_c")
    link_part("rosidl_generator_py", "rosidl_generator_c", "rosidl_typesupport_c")
    for part, source in extensions.items():
        siblings = {"rosidl_generator_py", "rosidl_typesupport_c", part}
        link(package, python / f"{package.name}_s__{part}.so", [source], sorted(siblings), [])


def in_few_files(sources: list[Path]) -> list[Path]:
    """Replace C++ files by a few that include them: most of the time they take goes into the headers they share."""
    rest = [path for path in sources if path.suffix != ".cpp"]
    parts = [path for path in sources if path.suffix == ".cpp"]
    count = min(len(parts), os.cpu_count() or 1)
    for number in range(count):
        bundle = parts[0].parent / f"bundle_{number}.cpp"
        bundle.write_text("".join(f'#include "{path}"\n' for path in parts[number::count]), encoding="utf-8")
        rest.append(bundle)
    return rest


def compile_one(package: Package, source: Path) -> None:
    """Compile one file."""
    import numpy as np

    headers = [package.build / part for part in ("rosidl_generator_c", *TYPE_SUPPORTS)]
    headers += [path for path in (PREFIX / "include").iterdir() if not path.name.startswith("python")]
    headers += [PREFIX / "include", Path(sysconfig.get_paths()["include"]), Path(np.get_include())]
    compiler = ["g++", "-std=c++17"] if source.suffix == ".cpp" else ["gcc", "-std=gnu11"]
    flags = ["-O2", "-fPIC", "-DNDEBUG", f"-DROSIDL_GENERATOR_C_BUILDING_DLL_{package.name}"]
    flags += [f"-I{path}" for path in headers]
    run(*compiler, "-c", "-o", object_of(source), source, *flags)


def link(
    package: Package, target: Path, sources: list[Path], siblings: Iterable[str], libraries: list[str]
) -> None:
    """Link the objects of sources into a shared library."""
    runtime = ["rosidl_runtime_c", "rosidl_typesupport_c", "rcutils"]
    if any(source.suffix == ".cpp" for source in sources):
        runtime += ["fastcdr", "rosidl_typesupport_fastrtps_c", "rosidl_typesupport_fastrtps_cpp"]
    runtime.append("rosidl_typesupport_introspection_c")
    names = [f"{package.name}__{part}" for part in siblings] + libraries + runtime
    flags = ["-s", "-Wl,--as-needed", "-Wl,--allow-shlib-undefined", "-Wl,-rpath,$ORIGIN:$ORIGIN/../../.."]
    flags += [f"-L{folder / 'lib'}" for folder in (package.build, PREFIX)]
    run("g++", "-shared", "-o", target, *map(object_of, sources), *flags, *(f"-l{name}" for name in names))


def object_of(source: Path) -> Path:
    """Return where the object of a source goes."""
    return source.with_suffix(source.suffix + ".o")


def stage(package: Package, staged: Staged) -> None:
    """Put a package's files where the wheel has them."""
    share = staged.prefix / "share" / package.name
    for path in package.definitions:
        described = package.build / "rosidl_generator_type_description" / package.name / path.parent.name
        idl = package.build / "idl" / path.parent.name
        for file in (path, idl / f"{path.stem}.idl", described / f"{path.stem}.json"):
            copy(file, share / path.parent.name / file.name)
    copy(package.manifest, share / "package.xml")
    for part in ("rosidl_generator_c", *TYPE_SUPPORTS):
        root = package.build / part
        for file in root.rglob("*.h"):
            copy(file, staged.prefix / "include" / package.name / file.relative_to(root))
    root = package.build / "rosidl_generator_py"
    for file in (*root.rglob("*.py"), *root.rglob("*.so")):
        copy(file, staged.modules / file.relative_to(root))
    (staged.modules / package.name / "__init__.py").touch()
    for file in (package.build / "lib").iterdir():
        copy(file, staged.prefix / "lib" / file.name)
    lines = sorted(
        f"{p.parent.name}/{name}" for p in package.definitions for name in (p.name, f"{p.stem}.idl")
    )
    for kind, text in (("packages", ""), ("rosidl_interfaces", "\n".join(lines))):
        (staged.index / kind).mkdir(parents=True, exist_ok=True)
        (staged.index / kind / package.name).write_text(text, encoding="utf-8")


def pack(staged: Staged, packages: list[Package], info: WheelInfo, wheel_dir: Path) -> Path:
    """Complete the content with the metadata and write the wheel. Return its path."""
    from wheel.wheelfile import WheelFile

    for name, text in info.modules.items():
        (staged.modules / name).write_text(text, encoding="utf-8")
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    tag = f"{python}-{python}-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
    information = staged.modules / f"{info.name}-{info.version}.dist-info"
    information.mkdir(parents=True)
    if info.license_file is not None:
        copy(info.license_file, information / "licenses" / "LICENSE")
    (information / "METADATA").write_text(metadata(packages, info), encoding="utf-8")
    (information / "WHEEL").write_text(
        f"Wheel-Version: 1.0\nGenerator: {Path(__file__).stem}\nRoot-Is-Purelib: false\nTag: {tag}\n",
        encoding="utf-8",
    )
    wheel_dir.mkdir(parents=True, exist_ok=True)
    wheel = wheel_dir / f"{info.name}-{info.version}-{tag}.whl"
    # Complete or absent, also after an interruption.
    temporary = wheel_dir / f".{os.getpid()}" / wheel.name
    temporary.parent.mkdir()
    try:
        with WheelFile(temporary, "w") as file:
            file.write_files(staged.modules)
        temporary.replace(wheel)
    finally:
        shutil.rmtree(temporary.parent, ignore_errors=True)
    return wheel


def metadata(packages: list[Package], info: WheelInfo) -> str:
    """Return the METADATA of the wheel."""
    names = {f"ros-{name.replace('_', '-')}" for package in packages for name in package.depends}
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {info.name}",
        f"Version: {info.version}",
        f"Summary: {info.summary}",
        f"License: {info.license}",
        *(["License-File: LICENSE"] if info.license_file is not None else []),
        f"Requires-Python: =={sys.version_info.major}.{sys.version_info.minor}.*",
        "Requires-Dist: numpy",
        # As the ROS wheels ask for one another: what is compiled fits the releases of one distribution.
        *(
            f"Requires-Dist: {name}~={found}"
            for name in sorted({*names, *RUNTIME})
            if (found := _version(name))
        ),
    ]
    return "\n".join(lines) + "\n"


def _version(distribution: str) -> str:
    """Return the version of a distribution, "" if it is not installed: its package came in another wheel."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


def copy(source: Path, target: Path) -> None:
    """Copy a file, and make its folder."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def in_parallel(jobs: list[Callable[[], None]]) -> None:
    """Run jobs on every core; the first failure cancels what has not started and is raised."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        futures: list[Future[None]] = [pool.submit(job) for job in jobs]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def run(*command: str | Path) -> None:
    """Run a command, and keep what it prints for its failure."""
    subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True)


if __name__ == "__main__":
    sys.exit(main())
