"""Commands about the installation: examples."""

from __future__ import annotations

from pathlib import Path

import click

from usd_ros_bridge.cli.examples import EXAMPLES, copy_example, find_example
from usd_ros_bridge.errors import escaped


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
