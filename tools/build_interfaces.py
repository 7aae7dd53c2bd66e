"""Build the interface packages of interfaces/ into this virtual environment with the rosidl generators.

Run it with the environment's own Python: `.venv/bin/python tools/build_interfaces.py --distro kilted`. It does what
rosidl_generate_interfaces() does in CMake for the parts that rclpy on Fast DDS uses (C structures, Python
modules, the C type supports of Fast DDS and of introspection), with gcc alone: no CMake, no colcon, and no
paths of the build machine, which the wheels' CMake files have.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

PREFIX = Path(sys.prefix)
INTERFACES = Path(__file__).resolve().parent.parent / "interfaces"
TYPE_SUPPORTS = ("rosidl_typesupport_fastrtps_c", "rosidl_typesupport_introspection_c")
KINDS = ("action", "msg", "srv")


@dataclass(frozen=True)
class Package:
    """An interface package: where its definitions are and where its build goes."""

    name: str
    manifest: Path
    depends: tuple[str, ...]
    definitions: tuple[Path, ...]
    build: Path

    @property
    def idl_tuples(self) -> list[str]:
        return [f"{self.build / 'idl'}:{path.parent.name}/{path.stem}.idl" for path in self.definitions]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--distro", required=True, help="ROS 2 distribution whose definitions are wanted")
    parser.add_argument("--build-dir", type=Path, default=PREFIX / "build" / "interfaces")
    parser.add_argument("packages", nargs="*", help="packages to build (default: all)")
    options = parser.parse_args()
    shutil.rmtree(options.build_dir, ignore_errors=True)
    names = options.packages or sorted(path.parent.name for path in INTERFACES.glob("*/package.xml"))
    try:
        for package in [read_package(name, options.distro, options.build_dir) for name in names]:
            generate(package)
            build(package)
            install(package)
            print(f"{package.name}: {len(package.definitions)} interfaces", flush=True)
    except subprocess.CalledProcessError as error:
        print(f"{' '.join(map(str, error.cmd))}\n{error.stdout}{error.stderr}", file=sys.stderr)
        return 1
    shutil.rmtree(options.build_dir, ignore_errors=True)
    return 0


def read_package(name: str, distro: str, build_dir: Path) -> Package:
    """Reads interfaces/<name>, with files of interfaces/<distro>/<name> in front where they exist."""
    root, overlay, build = INTERFACES / name, INTERFACES / distro / name, build_dir / name
    found = {}
    for base in (root, overlay):
        for kind in KINDS:
            found.update({(kind, path.name): path for path in base.glob(f"{kind}/*.{kind}")})
    definitions = []
    for (kind, file_name), path in sorted(found.items()):
        target = build / "definitions" / kind / file_name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        definitions.append(target)
    tree = ElementTree.parse(root / "package.xml")
    depends = {element.text or "" for element in tree.iter("depend")}
    # What every action and service is made of beyond its own definition.
    depends |= {"action_msgs", "service_msgs"}
    return Package(name, root / "package.xml", closure(depends), tuple(definitions), build)


def closure(names: Iterable[str]) -> tuple[str, ...]:
    """The interface packages among these and their dependencies, as the ament index has them."""
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
    """Runs rosidl_adapter, then every generator on its own arguments file, as rosidl_cmake would."""
    adapted = package.build / "adapter.json"
    tuples = [f"{package.build / 'definitions'}:{p.parent.name}/{p.name}" for p in package.definitions]
    adapted.write_text(json.dumps({"non_idl_tuples": tuples}))
    run(
        sys.executable, "-m", "rosidl_adapter", "--package-name", package.name, "--arguments-file", adapted,
        "--output-dir", package.build / "idl", "--output-file", package.build / "idl" / "tuples",
    )  # fmt: skip
    run_generator(package, "rosidl_generator_type_description")
    generators: list[tuple[str, ...]] = [
        ("rosidl_generator_c",),
        ("rosidl_generator_py", "--typesupport-impls", ";".join(("rosidl_typesupport_c", *TYPE_SUPPORTS))),
        ("rosidl_typesupport_c", "--typesupports", *TYPE_SUPPORTS),
        *((name,) for name in TYPE_SUPPORTS),
    ]
    in_parallel([lambda arguments=arguments: run_generator(package, *arguments) for arguments in generators])


def run_generator(package: Package, name: str, *arguments: str) -> None:
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
    file.write_text(json.dumps(content))
    output.mkdir(parents=True, exist_ok=True)
    script = PREFIX / "lib" / name / name
    run(sys.executable, script, "--generator-arguments-file", file, *arguments)
    for template in templates.glob("*__visibility_control.h.in"):
        header = output / "msg" / template.name[: -len(".in")]
        header.parent.mkdir(exist_ok=True)
        text = template.read_text().replace("@PROJECT_NAME_UPPER@", package.name.upper())
        header.write_text(text.replace("@PROJECT_NAME@", package.name))


def build(package: Package) -> None:
    """Compiles what was generated into lib<package>__<part>.so and the Python extension modules."""
    (package.build / "lib").mkdir()
    parts = ("rosidl_generator_c", *TYPE_SUPPORTS, "rosidl_typesupport_c")
    sources = {part: in_few_files(sorted((package.build / part).rglob("*.c*"))) for part in parts}
    python = package.build / "rosidl_generator_py" / package.name
    extensions = {path.name.split(".")[2]: path for path in sorted(python.glob("_*_s.ep.*.c"))}
    sources["rosidl_generator_py"] = sorted(python.glob("*/_*_s.c"))
    every = [path for files in sources.values() for path in files] + list(extensions.values())
    # The C++ files take longest: started first, they do not end last.
    every.sort(key=lambda path: path.suffix != ".cpp")
    in_parallel([lambda path=path: compile_one(package, path) for path in every])

    def link_part(part: str, *siblings: str) -> None:
        names = [f"{dependency}__{part}" for dependency in package.depends]
        link(package, package.build / "lib" / f"lib{package.name}__{part}.so", sources[part], siblings, names)

    link_part("rosidl_generator_c")
    in_parallel([lambda name=name: link_part(name, "rosidl_generator_c") for name in TYPE_SUPPORTS])
    link_part("rosidl_typesupport_c", "rosidl_generator_c")
    link_part("rosidl_generator_py", "rosidl_generator_c", "rosidl_typesupport_c")
    for part, source in extensions.items():
        siblings = {"rosidl_generator_py", "rosidl_typesupport_c", part}
        link(package, python / f"{package.name}_s__{part}.so", [source], sorted(siblings), [])


def in_few_files(sources: list[Path]) -> list[Path]:
    """Replaces C++ files by a few that include them: most of the time they take goes into the headers they share."""
    rest = [path for path in sources if path.suffix != ".cpp"]
    parts = [path for path in sources if path.suffix == ".cpp"]
    count = min(len(parts), os.cpu_count() or 1)
    for number in range(count):
        bundle = parts[0].parent / f"bundle_{number}.cpp"
        bundle.write_text("".join(f'#include "{path}"\n' for path in parts[number::count]))
        rest.append(bundle)
    return rest


def compile_one(package: Package, source: Path) -> None:
    import numpy as np

    headers = [package.build / part for part in ("rosidl_generator_c", *TYPE_SUPPORTS)]
    headers += [path for path in (PREFIX / "include").iterdir() if not path.name.startswith("python")]
    headers += [PREFIX / "include", Path(sysconfig.get_paths()["include"]), Path(np.get_include())]
    compiler = ["g++", "-std=c++17"] if source.suffix == ".cpp" else ["gcc", "-std=gnu11"]
    run(
        *compiler, "-O2", "-fPIC", "-DNDEBUG", f"-DROSIDL_GENERATOR_C_BUILDING_DLL_{package.name}", "-c",
        "-o", object_of(source), source, *(f"-I{path}" for path in headers),
    )  # fmt: skip


def link(
    package: Package, target: Path, sources: list[Path], siblings: Iterable[str], libraries: list[str]
) -> None:
    runtime = ["rosidl_runtime_c", "rosidl_typesupport_c", "rcutils"]
    if any(source.suffix == ".cpp" for source in sources):
        runtime += ["fastcdr", "rosidl_typesupport_fastrtps_c", "rosidl_typesupport_fastrtps_cpp"]
    runtime.append("rosidl_typesupport_introspection_c")
    names = [f"{package.name}__{part}" for part in siblings] + libraries + runtime
    run(
        "g++", "-shared", "-o", target, *map(object_of, sources), f"-L{package.build / 'lib'}", f"-L{PREFIX / 'lib'}",
        "-Wl,--as-needed", "-Wl,--allow-shlib-undefined", "-Wl,-rpath,$ORIGIN:$ORIGIN/../../..",
        *(f"-l{name}" for name in names),
    )  # fmt: skip


def object_of(source: Path) -> Path:
    return source.with_suffix(source.suffix + ".o")


def install(package: Package) -> None:
    """Copies the result into the prefix; the entry in the ament index comes last, so that it never lies."""
    share = PREFIX / "share" / package.name
    for directory in (share, PREFIX / "include" / package.name, site_packages() / package.name):
        shutil.rmtree(directory, ignore_errors=True)
    for path in package.definitions:
        described = package.build / "rosidl_generator_type_description" / package.name / path.parent.name
        idl = package.build / "idl" / path.parent.name
        for file in (path, idl / f"{path.stem}.idl", described / f"{path.stem}.json"):
            copy(file, share / path.parent.name / file.name)
    copy(package.manifest, share / "package.xml")
    for part in ("rosidl_generator_c", *TYPE_SUPPORTS):
        root = package.build / part
        for file in root.rglob("*.h"):
            copy(file, PREFIX / "include" / package.name / file.relative_to(root))
    root = package.build / "rosidl_generator_py"
    for file in (*root.rglob("*.py"), *root.rglob("*.so")):
        copy(file, site_packages() / file.relative_to(root))
    (site_packages() / package.name / "__init__.py").touch()
    for file in (package.build / "lib").iterdir():
        copy(file, PREFIX / "lib" / file.name)
    index = PREFIX / "share" / "ament_index" / "resource_index"
    lines = sorted(
        f"{p.parent.name}/{name}" for p in package.definitions for name in (p.name, f"{p.stem}.idl")
    )
    (index / "packages" / package.name).write_text("")
    (index / "rosidl_interfaces" / package.name).write_text("\n".join(lines))


def site_packages() -> Path:
    return Path(sysconfig.get_paths()["purelib"])


def copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    # A library that a running bridge has mapped must not change under it: replace the file, never its content.
    temporary = target.with_name(target.name + ".new")
    shutil.copyfile(source, temporary)
    temporary.replace(target)


def in_parallel(jobs: list[Callable[[], None]]) -> None:
    """Runs jobs on every core; the first failure cancels what has not started and is raised."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        futures: list[Future[None]] = [pool.submit(job) for job in jobs]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def run(*command: str | Path) -> None:
    subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True)


if __name__ == "__main__":
    sys.exit(main())
