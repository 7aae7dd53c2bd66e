"""Conformance tests of handlers, exporters and commands, for authors of plug-ins.

Subclass one in a test module, and pytest collects its tests:

    class TestMyFormat(ExporterConformance):
        format_name = "dot"
        asset = Path(__file__).parent / "robot.usda"

The plug-in's distribution has to be installed. Handlers need ROS 2; the others need it not.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar

import pytest

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.cli.command_group import COMMANDS
from usd_ros_bridge.model.exporters import EXPORTERS, ExportContext, Exporter
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import BridgeOptions
from usd_ros_bridge.plugins import Registry

_TIMEOUT_S = 120.0
_EMPTY = '#usda 1.0\n(\n    defaultPrim = "nothing"\n    metersPerUnit = 1\n)\n\ndef Xform "nothing"\n{\n}\n'
"""A stage that has nothing to serve."""


def run_command_line(*arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[bytes]:
    """Run `usd_ros_bridge` in a process of its own, in a folder. Return its status and output."""
    return subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, "-m", "usd_ros_bridge", *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        timeout=_TIMEOUT_S,
        check=False,
    )


def check_registered(registry: Registry[Any], name: str) -> None:
    """Fail if an installed plug-in cannot be used, with the reason."""
    assert registry.is_foreign(name), (
        f"no installed distribution has the entry point {name} in {registry.group}"
    )
    assert not (fault := registry.fault(name)), fault


class ExporterConformance:
    """Check a format of `usd_ros_bridge export`.

    Attributes:
        format_name: Name of the entry point.
        asset: USD file that can be written so.
        arguments: Options of the format on the command line, if it needs any.
    """

    format_name: ClassVar[str]
    asset: ClassVar[str | Path]
    arguments: ClassVar[Sequence[str]] = ()

    @property
    def exporter(self) -> Exporter:
        """The format."""
        return EXPORTERS[self.format_name]

    def test_it_is_registered(self) -> None:
        """The entry point names an exporter that can be imported."""
        check_registered(EXPORTERS, self.format_name)

    def test_its_suffix_has_a_dot(self) -> None:
        """The suffix is one of a file."""
        assert self.exporter.suffix == Path(f"file{self.exporter.suffix}").suffix

    def test_the_command_writes_a_file(self, tmp_path: Path) -> None:
        """The file appears, and standard output stays empty."""
        target = tmp_path / f"robot{self.exporter.suffix}"
        done = self._export(tmp_path, "-o", target)
        assert done.returncode == 0, done.stderr.decode()
        assert done.stdout == b""
        assert target.stat().st_size

    def test_without_a_file_only_the_document_is_written(self, tmp_path: Path) -> None:
        """Standard output gets the document, and nothing is written beside the asset or here."""
        done = self._export(tmp_path)
        assert done.returncode == 0, done.stderr.decode()
        assert done.stdout
        assert list(tmp_path.iterdir()) == []

    def test_a_second_time_gives_the_same(self) -> None:
        """The document depends on the plan and the options alone."""
        plan = load_plan(self.asset, physics=True)
        assert self._written(plan) == self._written(plan)

    def test_its_options_have_help(self, tmp_path: Path) -> None:
        """`--help` shows each option of the format."""
        done = run_command_line("export", "--format", self.format_name, "--help", folder=tmp_path)
        assert done.returncode == 0, done.stderr.decode()
        for option in self.exporter.options:
            assert option.help, option.name
            assert option.flag in done.stdout.decode()

    def _export(self, folder: Path, *more: str | Path) -> subprocess.CompletedProcess[bytes]:
        asset = Path(self.asset).resolve()
        return run_command_line(
            "export", asset, "--format", self.format_name, *self.arguments, *more, folder=folder
        )

    def _written(self, plan: BridgePlan) -> bytes:
        stream, options = BytesIO(), {each.name: each.default for each in self.exporter.options}
        self.exporter.write(ExportContext(plan=plan, options=options), stream)
        return stream.getvalue()


class CommandConformance:
    """Check a verb of `usd_ros_bridge`.

    Attributes:
        command_name: Name of the entry point.
        arguments: Arguments of a call that succeeds; None: it is not called.
    """

    command_name: ClassVar[str]
    arguments: ClassVar[Sequence[str | Path] | None] = None

    def test_it_is_registered(self) -> None:
        """The entry point names a click command that can be imported."""
        check_registered(COMMANDS, self.command_name)

    def test_help_shows_it_without_importing_it(self, tmp_path: Path) -> None:
        """`usd_ros_bridge --help` lists the verb from the metadata alone."""
        entry = COMMANDS.entry(self.command_name)
        assert entry is not None
        module = entry.value.partition(":")[0]
        program = (
            "import sys\nfrom usd_ros_bridge.cli.main import main\n"
            "try:\n    main(['--help'])\nexcept SystemExit:\n    sys.exit(sys.argv[1] in sys.modules)\n"
        )
        done = subprocess.run(  # noqa: S603 - this interpreter
            [sys.executable, "-c", program, module],
            cwd=tmp_path,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        assert f"  {self.command_name} " in done.stdout.decode()
        assert done.returncode == 0, f"{module} was imported for the help of all commands"

    def test_its_help(self, tmp_path: Path) -> None:
        """The verb has a help text of its own."""
        done = run_command_line(self.command_name, "--help", folder=tmp_path)
        assert done.returncode == 0, done.stderr.decode()
        assert COMMANDS[self.command_name].help or COMMANDS[self.command_name].short_help

    def test_a_wrong_option_is_one_line(self, tmp_path: Path) -> None:
        """A mistake of the caller ends with status 2 and one line."""
        done = run_command_line(self.command_name, "--no-such-option-at-all", folder=tmp_path)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr.decode()

    def test_it_runs(self, tmp_path: Path) -> None:
        """The call of `arguments` succeeds."""
        if self.arguments is None:
            pytest.skip("the test class has no arguments to call it with")
        done = run_command_line(self.command_name, *self.arguments, folder=tmp_path)
        assert done.returncode == 0, done.stderr.decode()


class HandlerConformance:
    """Check the handlers of a package in bridges of a reserved ROS domain, which the fixture `ros_domain` gives.

    Attributes:
        handlers_name: Name of the entry point.
        asset: USD file with interfaces that they serve.
        served: Prim paths of the interfaces that they serve there.
        backend: Backend of the bridge.
    """

    handlers_name: ClassVar[str]
    asset: ClassVar[str | Path]
    served: ClassVar[Sequence[str]]
    backend: ClassVar[str] = "kinematic"

    def test_they_are_registered(self) -> None:
        """The entry point names a function that can be imported."""
        from usd_ros_bridge.ros.endpoints.handlers import HANDLERS

        check_registered(HANDLERS, self.handlers_name)

    def test_they_serve_the_asset(self, ros_domain: int) -> None:
        """Each interface is served by this package."""
        del ros_domain
        assert self._served(load_plan(self.asset, physics=True)) >= set(self.served)

    def test_they_leave_other_assets_alone(self, ros_domain: int, tmp_path: Path) -> None:
        """An asset that has nothing for them is no error."""
        del ros_domain
        empty = tmp_path / "nothing.usda"
        empty.write_text(_EMPTY, encoding="utf-8")
        assert self._served(load_plan(empty, physics=True), backend="kinematic") == set()

    def _served(self, plan: BridgePlan, *, backend: str = "") -> set[str]:
        """Return the prim paths of what the package serves; its faults fail the test."""
        from usd_ros_bridge.ros.bridge import Bridge

        faults: list[str] = []

        def report(kind: str, message: str) -> None:
            if kind.startswith("handlers:"):
                faults.append(message)

        options = BridgeOptions(handlers=(self.handlers_name,), threaded=False)
        with Bridge(plan, backend or self.backend, options=options, report=report) as bridge:
            rows = bridge.status().interfaces
            assert faults == []
            return {each.path for each in rows if each.served_by == f"package {self.handlers_name}"}
