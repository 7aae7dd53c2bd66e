"""Commands about the installation: examples, backends, doctor. Imports are late, for a fast `--help`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from usd_ros_bridge.cli.examples import EXAMPLES, copy_example, find_example
from usd_ros_bridge.errors import escaped

EXIT_NOT_READY = 1
_COLOURS = {"ok": "green", "warning": "yellow", "error": "red"}


@click.group(invoke_without_command=True)
@click.pass_context
def examples(context: click.Context) -> None:
    """List the installed examples, or copy one.

    `run --example NAME` runs one.
    """
    if context.invoked_subcommand is not None:
        return
    width = max(map(len, EXAMPLES))
    for example in EXAMPLES.values():
        click.echo(f"{example.name:<{width}}  {example.summary}")


@examples.command("copy")
@click.argument("name")
@click.argument("directory", metavar="[DIR]", default=".", type=click.Path(file_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Overwrite files of an earlier copy.")
def copy(name: str, directory: Path, force: bool) -> None:
    """Copy the example NAME to DIR/NAME (default: ./NAME), to change it.

    Examples that it references are copied beside it.
    """
    folder, *others = copy_example(name, directory, overwrite=force)
    for other in others:
        click.echo(escaped(f"{other}  referenced by {name}"))
    click.echo(escaped(f"{folder / find_example(name).file}"))


@click.command()
@click.argument("asset", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def doctor(asset: str | None, as_json: bool) -> None:
    """Check the installation: what `run` needs, whether it works here, and what cures it.

    With ASSET, also print how MuJoCo solves each drive, and the contact parameters of each collider: what differs from
    another engine. The exit status is 1 if something prevents `run`.
    """
    from dataclasses import asdict

    from usd_ros_bridge.cli.doctor import run_checks, shown

    checks = run_checks()
    ready = all(check.status != "error" for check in checks)
    if as_json:
        document: dict[str, Any] = {"ready": ready, "checks": [asdict(check) for check in checks]}
        if ready:
            document |= _engine(asset, as_json=True)
        click.echo(json.dumps(document, indent=2))
    else:
        for status, line in shown(checks):
            click.secho(line, fg=_COLOURS[status])
        click.echo("`run` works here" if ready else "`run` does not work here: see the errors")
        if ready:
            _engine(asset, as_json=False)
    if not ready:
        sys.exit(EXIT_NOT_READY)


def _engine(asset: str | None, *, as_json: bool) -> dict[str, Any]:
    """Return what MuJoCo makes of an asset as JSON, or print it. The imports need what `doctor` checks."""
    if asset is None:
        return {}
    from usd_ros_bridge.cli.common import engine_settings, load_asset
    from usd_ros_bridge.cli.views import print_engine, standard_output
    from usd_ros_bridge.export.plan_json import engine_to_json

    settings = engine_settings(load_asset(asset, physics=True))
    if as_json:
        return engine_to_json(settings)
    print_engine(settings, standard_output())
    return {}


@click.command()
def backends() -> None:
    """List the backends, how to install those that are missing, and their options.

    `run --backend NAME --backend-option KEY=VALUE` uses them.
    """
    from usd_ros_bridge.backends.backend_options import BUILT_IN_BACKENDS
    from usd_ros_bridge.backends.registry import backend_fault, backend_names, backend_options_of

    names = backend_names()
    for name in [
        *(name for name in BUILT_IN_BACKENDS if name in names),
        *(name for name in names if name not in BUILT_IN_BACKENDS),
    ]:
        fault, info = backend_fault(name), BUILT_IN_BACKENDS.get(name)
        click.secho(name, bold=True, nl=False)
        click.secho(escaped(f"  {fault or 'installed'}"), fg=_COLOURS["warning" if fault else "ok"])
        if info is not None:
            click.echo(f"  {info.summary}")
        elif fault:
            continue
        for option, each in backend_options_of(name).items():
            limits = f": {each.possible}" if each.possible else ""
            click.echo(f"    {option}  {each.help} ({each.kind}{limits}; default: {each.default})")
