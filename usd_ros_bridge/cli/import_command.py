"""`usd_ros_bridge import`: from a URDF or MJCF to an asset that `run` moves."""

from __future__ import annotations

import re
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from usd_ros_bridge.cli.common import load_asset, split_options, table_options
from usd_ros_bridge.cli.output_files import print_replaced
from usd_ros_bridge.cli.scaffold_command import (
    addition_options,
    print_decisions,
    scaffold_request,
    write_scaffold,
)
from usd_ros_bridge.errors import AssetError, OptionError, escaped, quoted
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.scaffold import Decision, ScaffoldRequest
from usd_ros_bridge.planning.names import namespace_fault
from usd_ros_bridge.process_settings import discard_output

if TYPE_CHECKING:
    from usd_ros_bridge.importing.allowed_files import FindPackage
    from usd_ros_bridge.importing.converter import Converter
    from usd_ros_bridge.importing.robot_file import RobotFile
    from usd_ros_bridge.options import ReadOptions

ROBOT_LAYER = "robot.usda"
ASSET_FOLDER = "asset"
LOG = "converter.log"

EXPANDED = "expanded.urdf"
"""File name of the URDF that xacro makes of the robot file."""

WORLD_LINK = "world"
"""Root link of URDFs that say themselves that the robot is fixed."""

_SHOWN = 6
"""Joints that a reason names."""

_WARNING = re.compile(r"^\[Warning\] (\[[^\]]*\] )?")
_LOST_MESH = re.compile(r"Failed to convert mesh|could not be parsed|contains no meshes")


@click.command("import")
@click.argument("robot", required=False, type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, metavar="[NAME:=VALUE]...")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIRECTORY",
    help="Directory to make [default: the robot's name].",
)
@click.option("--force", is_flag=True, help="Replace DIRECTORY if import made it.")
@click.option(
    "--install-converter",
    "installs",
    is_flag=True,
    help="Install the converters first, once, into an environment of their own.",
)
@addition_options
@click.option("--no-drives", is_flag=True, help="Give joints no drives.")
@click.option("--no-ground", is_flag=True, help="Put no ground below a robot that floats.")
@click.option(
    "--namespace", metavar="NAME", help="Namespace of the robot, empty for none [default: the robot's name]."
)
@click.option(
    "--allow-folder",
    "folders",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIRECTORY",
    help="Also read files below DIRECTORY: meshes and textures outside the robot's folder and packages. Repeatable.",
)
@table_options("packages")
def import_robot(
    robot: Path | None,
    arguments: tuple[str, ...],
    output: Path | None,
    force: bool,
    installs: bool,
    folders: tuple[Path, ...],
    **options: Any,
) -> None:
    """Convert ROBOT, a URDF, xacro or MJCF, and add ROS interfaces and physics: an asset that runs.

    A xacro is expanded first, with NAME:=VALUE for its arguments.

    Joints get drives. A robot that stands on legs or wheels floats above a ground, another one is fixed to the world.
    Each decision is printed with its reason; the options override it.
    """
    from usd_ros_bridge.importing.converter import find_converter
    from usd_ros_bridge.importing.imported_directory import check_target, imported_directory
    from usd_ros_bridge.importing.robot_file import read_robot_file

    wishes = _Wishes(options)
    read, _ = split_options(options)
    if installs:
        _install()
    if robot is None:
        if installs:
            return
        raise click.UsageError("Missing argument 'ROBOT'.")
    with ExitStack() as stack:
        urdf, packages = _expanded(robot, arguments, read, stack)
        source = read_robot_file(
            robot,
            _package_search(read.packages),
            urdf=urdf,
            packages=packages,
            folders=(*folders, *map(Path, read.packages.values())),
        )
        _refuse_faults(source)
        content = None if urdf is None else urdf.read_bytes()
    target = (output or Path(_directory_name(source.name))).resolve()
    check_target(target, force=force)
    if robot.resolve().is_relative_to(target):
        raise OptionError(f"{robot} is in {target}, which import replaces: name another directory by -o")
    old = [path for path in target.rglob("*") if path.is_file()]
    converter = find_converter(source.kind)
    facts = {"source": source.path.name, "converter": converter.label(source.kind)}
    with imported_directory(target, force=force, facts=facts) as made:
        stage = _convert(source, converter, made, content)
        with _phase("adding interfaces and physics"):
            request, decisions = wishes.decide(source, stage, read)
            layer = made / ROBOT_LAYER
            result = write_scaffold(str(stage), layer, read=read, request=request)
    print_replaced({_shown(target): f"{len(old)} files"} if old else {})
    print_decisions(replace(result, decisions=(*decisions, *result.decisions)), _shown(target) / ROBOT_LAYER)
    shown = shlex.quote(str(_shown(target) / ROBOT_LAYER))
    click.echo(escaped(f"usd_ros_bridge inspect {shown}\nusd_ros_bridge run {shown}", keep="\n"))


def _convert(source: RobotFile, converter: Converter, made: Path, expanded: bytes | None) -> Path:
    """Convert a robot, and print what the converter has to say. Return the stage.

    Args:
        source: The robot file.
        converter: For its kind.
        made: The directory of the import.
        expanded: The URDF that xacro made, None for a robot file that is read as it is.
    """
    left_out: list[Diagnostic] = []
    urdf = None if expanded is None else made / EXPANDED
    try:
        with _phase(f"converting with {converter.label(source.kind)}"):
            (made / ASSET_FOLDER).mkdir()
            if urdf is not None and expanded is not None:
                urdf.write_bytes(expanded)
            stage = converter.convert(
                source, made / ASSET_FOLDER, made / LOG, report=left_out.append, urdf=urdf
            )
    finally:
        for diagnostic in left_out:
            _print_diagnostic(diagnostic)
    _judge_log(source, made / LOG)
    return stage


class _Wishes:
    """What the options say about physics, and what import decides where they say nothing."""

    def __init__(self, options: dict[str, Any]) -> None:
        """Take the options for physics out of the command's.

        Args:
            options: Of the command.

        Raises:
            OptionError: They contradict each other.
        """
        for name in ("drives", "ground"):
            if options[name] and options[f"no_{name}"]:
                raise OptionError(f"--{name} and --no-{name} contradict each other: name one")
        options["drives"] = not options.pop("no_drives")
        self._may_add_ground = not options.pop("no_ground")
        namespace: str | None = options.pop("namespace")
        if namespace and (fault := namespace_fault(namespace)):
            raise OptionError(f"--namespace {quoted(namespace)}: it {fault}")
        self._request: ScaffoldRequest = replace(scaffold_request(options), namespace=namespace)

    def decide(
        self, source: RobotFile, stage: Path, read: ReadOptions
    ) -> tuple[ScaffoldRequest, list[Decision]]:
        """Return the physics to add, and why.

        Args:
            source: The robot file.
            stage: The converted asset.
            read: How it is opened.
        """
        request, decisions = replace(self._request, limits=source.drive_limits), []
        floats = request.base == "free"
        if not request.base:
            floats, path, reason = _base(source, stage, read)
            # The converter fixes every URDF; what an MJCF says is kept.
            request = replace(request, base="free" if floats and source.kind == "urdf" else "")
            text = f"{'floats' if floats else 'fixed to the world'}: {reason}"
            decisions.append(Decision(outcome="note", subject="base", text=text, path=path))
        if floats and self._may_add_ground:
            request = replace(request, ground=True)
        return request, decisions


def _base(source: RobotFile, stage: Path, read: ReadOptions) -> tuple[bool, str, str]:
    """Decide whether a robot floats. Return this, the robot's path, and the reason."""
    from usd_ros_bridge.options import PlanOptions
    from usd_ros_bridge.planning.standing import standing_limbs

    plan = load_asset(
        str(stage), read_options=read, plan_options=PlanOptions(implicit_interfaces=False), physics=True
    )
    assert plan.physics is not None
    path = plan.robots[0].path if plan.robots else "/"
    if source.kind == "mjcf":
        return any(robot.base >= 0 for robot in plan.robots), path, "as the MJCF says"
    if source.root == WORLD_LINK:
        return False, path, f"the root link is called {WORLD_LINK} (--free-base lets it float)"
    if not plan.physics.colliders:
        return False, path, "it has no colliders to stand on"
    limbs = standing_limbs(plan.physics, 0) if plan.robots else []
    if not limbs:
        return False, path, "no legs or wheels reach its lowest point (--free-base lets it float)"
    names = ", ".join(limb.rpartition("/")[2] for limb in limbs[:_SHOWN])
    more = f" and {len(limbs) - _SHOWN} more" if len(limbs) > _SHOWN else ""
    return True, path, f"the robot stands on what {names}{more} move (--fix-base fixes it)"


def _expanded(
    robot: Path, arguments: Sequence[str], read: ReadOptions, stack: ExitStack
) -> tuple[Path | None, dict[str, Path]]:
    """Return the URDF that xacro makes of a robot file, None for a file that is read as it is; and its packages.

    Args:
        robot: The robot file.
        arguments: `NAME:=VALUE`.
        read: How assets are opened: with directories of packages.
        stack: Keeps the URDF until it is closed.

    Raises:
        AssetError: xacro cannot expand it.
    """
    from usd_ros_bridge.importing.converter import ConversionError, find_converter
    from usd_ros_bridge.importing.robot_file import is_xacro

    values = dict(_argument(each) for each in arguments)
    if not is_xacro(robot):
        if arguments and robot.is_file():
            raise OptionError(f"{robot} is no xacro: {arguments[0]} has no meaning")
        return None, {}
    urdf = Path(stack.enter_context(TemporaryDirectory())) / EXPANDED
    converter = find_converter("urdf")
    try:
        packages = converter.expand(
            robot.absolute(), urdf, arguments=values, find_package=_package_search(read.packages)
        )
    except ConversionError as error:
        raise AssetError(
            f"{robot.absolute()} is not imported: error [import.xacro] {robot.name}: xacro cannot expand it: {error}"
        ) from error
    return urdf, packages


def _argument(text: str) -> tuple[str, str]:
    name, mark, value = text.partition(":=")
    if not (name and mark):
        raise OptionError(f"{quoted(text)} is no argument of a xacro: write NAME:=VALUE")
    return name, value


def _package_search(given: Mapping[str, str]) -> FindPackage:
    """Return a search for ROS packages: as for assets, then in ROS_PACKAGE_PATH."""
    from usd_ros_bridge.importing.allowed_files import find_in_ros_package_path
    from usd_ros_bridge.usd.packages import PackageMap

    packages = PackageMap(given)
    return lambda name: packages.directory(name) or find_in_ros_package_path(name)


def _refuse_faults(source: RobotFile) -> None:
    """Print the faults of a robot file, one a line. An error that is the only one is the refusal itself.

    Raises:
        AssetError: One of them is an error.
    """
    errors = [each for each in source.diagnostics if each.severity == "error"]
    for diagnostic in source.diagnostics:
        if errors != [diagnostic]:
            _print_diagnostic(diagnostic)
    if len(errors) == 1:
        raise AssetError(f"{source.path} is not imported: {errors[0]}")
    if errors:
        raise AssetError(
            f"{source.path} is not imported: correct the {len(errors)} errors above, and import it again"
        )


def _print_diagnostic(diagnostic: Diagnostic) -> None:
    print(escaped(str(diagnostic)), file=sys.stderr)


def _judge_log(source: RobotFile, log: Path) -> None:
    """Print what the converter has to say in short. Remove the log if that is nothing.

    Raises:
        AssetError: Meshes are lost.
    """
    from usd_ros_bridge.importing.robot_file import MOST_MESHES

    lines = [line for line in log.read_text(errors="replace", encoding="utf-8").splitlines() if line.strip()]
    lost = [_WARNING.sub("", line) for line in lines if _LOST_MESH.search(line)]
    for line in lost[:MOST_MESHES]:
        diagnostic = Diagnostic(
            code="import.mesh",
            severity="error",
            path=source.path.name,
            message=line,
            remedy="convert the mesh to .stl or .obj",
        )
        _print_diagnostic(diagnostic)
    if lost:
        raise AssetError(
            f"{source.path} is not imported: the converter cannot read {len(lost)} of its meshes"
        )
    if lines:
        _progress(f"! converter: {len(lines)} warning{'s' * (len(lines) > 1)}, in {LOG}\n")
    else:
        log.unlink()


def _install() -> None:
    from usd_ros_bridge.importing.converter import INSTALLED_SIZE, environment_directory, install_converter

    with _phase(f"installing the converters into {environment_directory()} ({INSTALLED_SIZE})"):
        install_converter()


def _directory_name(name: str) -> str:
    return re.sub(r"[^\w.-]+", "_", name).strip("._-") or "robot"


def _shown(path: Path) -> Path:
    """Return a path as people name it: relative to here where it is below."""
    here = Path.cwd().resolve()
    return path.relative_to(here) if path.is_relative_to(here) else path


@contextmanager
def _phase(what: str) -> Iterator[None]:
    """Print what begins, and then how long it took."""
    start = time.monotonic()
    _progress(f"{what} ...")
    try:
        yield
    except BaseException:
        _progress("\n")
        raise
    _progress(f" {time.monotonic() - start:.1f} s\n")


def _progress(text: str) -> None:
    """Print how far it is. An import continues where nobody reads it any more."""
    try:
        click.echo(escaped(text, keep="\n"), nl=False)
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output(errors=False)
