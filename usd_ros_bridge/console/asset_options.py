"""What commands share: options of reading and planning, the types that there are, and where tables go."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from usd_ros_bridge.model.options import PlanOptions, ReadOptions, TypeCatalog
from usd_ros_bridge.model.parse import parse_packages, parse_variants

if TYPE_CHECKING:
    from rich.console import Console

PIPED_WIDTH = 200

variant_option = click.option(
    "--variant", "variants", multiple=True, metavar="/PRIM:SET=CHOICE", help="Select a variant."
)
namespace_option = click.option("--namespace", default="", help="Namespace around every relative name.")
payloads_option = click.option(
    "--payloads", type=click.Choice(["all", "none"]), default="all", help="Load payloads or not."
)
implicit_context_option = click.option(
    "--no-implicit-context", is_flag=True, help="Do not treat the default prim as a context."
)
package_option = click.option(
    "--package", "packages", multiple=True, metavar="NAME=DIRECTORY", help="For package:// paths."
)


def asset_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options that `inspect` and `run` share."""
    options = (
        click.argument("asset"), variant_option, namespace_option, payloads_option, implicit_context_option,
        click.option("--strict", is_flag=True, help="Exit with status 1 if the asset has an error."), package_option,
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def split_options(options: Mapping[str, Any]) -> tuple[ReadOptions, PlanOptions]:
    """Returns what the shared options say of reading and of planning; what a command does not have is the default.

    Raises:
        OptionError: One of them has a value that is not possible.
    """
    read = ReadOptions(
        variants=parse_variants(options.get("variants", ())),
        payloads=options.get("payloads", "all"),
        packages=parse_packages(options.get("packages", ())),
    )
    return read, PlanOptions(
        namespace=options.get("namespace", ""),
        implicit_context=not options.get("no_implicit_context", False),
    )


def installed_types() -> TypeCatalog | None:
    """Returns the interface types of the ROS environment, None where there is no ROS."""
    try:
        import ament_index_python  # noqa: F401
    except ImportError:
        return None
    from usd_ros_bridge.ros.types import AmentCatalog

    return AmentCatalog()


def standard_output() -> Console:
    """Returns where tables go: as wide as the terminal, or wide enough for most where there is none."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else PIPED_WIDTH, highlight=False)
