"""`usd_ros_bridge resolver`: how package:// is resolved here, and the compiled ArResolver for it."""

from __future__ import annotations

from pathlib import Path

import click

from usd_ros_bridge.errors import escaped


@click.command()
@click.option("--build", "builds", is_flag=True, help="Compile the plugin; print the folder that it is in.")
@click.option(
    "--headers",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIRECTORY",
    help="OpenUSD's headers [default: pxr-ar-dev beside usd-core].",
)
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIRECTORY",
    help="Where to put it [default: where the bridge looks].",
)
def resolver(builds: bool, headers: Path | None, directory: Path | None) -> None:
    """Say how package:// is resolved here (REP 0158 section 1.2.5), or compile the plugin that resolves it."""
    if builds:
        from usd_ros_bridge.usd.resolver.build import build

        click.echo(build(headers=headers, directory=directory))
        return
    if headers is not None or directory is not None:
        raise click.UsageError("--headers and --directory go with --build")
    click.echo(escaped(_summary(), keep="\n"))


def _summary() -> str:
    from usd_ros_bridge.usd.resolver import (
        PLUGIN_FILE,
        Way,
        default_directory,
        openusd_version,
        register_resolver,
    )

    way = {
        Way.PLUGIN: "the compiled resolver",
        Way.LINKS: "links, by the bridge on stages that it opens",
        Way.HOST: "a resolver of the host's",
    }[register_resolver()]
    directory = default_directory()
    built = "built" if (directory / PLUGIN_FILE).is_file() else "not built: usd_ros_bridge resolver --build"
    return f"package:// is resolved by {way}\nOpenUSD {openusd_version()}\n{directory} ({built})"
