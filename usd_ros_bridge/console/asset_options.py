"""What commands share: options of reading and planning and the types that there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, get_args

import click

from usd_ros_bridge.model.options import MasslessBodies, PlanOptions, ReadOptions, TypeCatalog
from usd_ros_bridge.model.parse import parse_contexts, parse_packages, parse_variants
from usd_ros_bridge.ros.signals import run_interruptibly

if TYPE_CHECKING:
    from usd_ros_bridge.model.plan import BridgePlan

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
massless_option = click.option(
    "--massless-bodies",
    type=click.Choice(get_args(MasslessBodies)),
    default="auto",
    help="What bodies without mass weigh; auto: as the asset says, else unit_mass.",
)
contexts_option = click.option(
    "--contexts",
    multiple=True,
    metavar="/PRIM[,/PRIM...]",
    help="Serve only the robots at or below these prims; / for interfaces outside of every context.",
)

LIMITS = {
    "max_prims": "prims of the composed stage",
    "max_layers": "layer files",
    "max_bytes": "bytes in all layer files",
    "max_nesting": "levels of prims, and of brackets in a text layer",
    "max_arcs": "composition arcs of one prim, and API schemas applied to it",
}


def limit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that limit what is opened."""
    for name, what in reversed(LIMITS.items()):
        default = getattr(ReadOptions(), name)
        command = click.option(
            f"--{name.replace('_', '-')}",
            type=click.IntRange(min=1),
            default=default,
            metavar="NUMBER",
            help=f"Refuse an asset with more {what} [default: {default:,}].",
        )(command)
    return command


def asset_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options that `inspect` and `run` share."""
    options = (
        click.argument("asset"), variant_option, namespace_option, payloads_option, implicit_context_option,
        contexts_option, massless_option,
        click.option("--strict", is_flag=True, help="Exit with status 1 if the asset has an error."), package_option,
        limit_options,
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
        **{name: options[name] for name in LIMITS if name in options},
    )
    return read, PlanOptions(
        namespace=options.get("namespace", ""),
        implicit_context=not options.get("no_implicit_context", False),
        contexts=parse_contexts(options.get("contexts", ())),
        beyond_limits=options.get("beyond_limits", "reject"),
        massless_bodies=options.get("massless_bodies", "auto"),
    )


def load_asset(asset: str, **options: Any) -> BridgePlan:
    """Read and plan an asset without OpenUSD's own warnings. Signals end the process meanwhile.

    Args:
        asset: As for `load_plan`.
        options: As for `load_plan`.
    """
    from usd_ros_bridge.api import load_plan
    from usd_ros_bridge.usd import quiet

    def load() -> BridgePlan:
        with quiet():
            return load_plan(asset, **options)

    return run_interruptibly(load)


def installed_types() -> TypeCatalog | None:
    """Returns the interface types of the ROS environment, None where there is no ROS."""
    try:
        import ament_index_python  # noqa: F401
    except ImportError:
        return None
    from usd_ros_bridge.ros.types import AmentCatalog

    return AmentCatalog()
