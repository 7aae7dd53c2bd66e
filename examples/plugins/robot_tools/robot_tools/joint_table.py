"""`usd_ros_bridge joints ASSET`: the joints of an asset with their limits, as lines for a spreadsheet."""

import click

from usd_ros_bridge import load_plan

USD_ROS_BRIDGE_PROTOCOL = 1


@click.command()
@click.argument("asset")
@click.option("--separator", default=",", help="Between two columns.")
def joints(asset: str, separator: str) -> None:
    """Print the joints of ASSET with their limits."""
    layout = load_plan(asset).layout
    click.echo(separator.join(("joint", "lower", "upper")))
    for name, lower, upper in zip(layout.dofs, layout.lower, layout.upper, strict=True):
        click.echo(separator.join((name, f"{lower:g}", f"{upper:g}")))
