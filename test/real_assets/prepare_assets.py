"""Converts real URDFs and MJCFs to OpenUSD, and writes what pinocchio says about the URDFs.

Run in the conversion environment by tools/test_robots.sh: `python prepare_assets.py build/real_assets`. Each asset
gets a directory with the converted stage and `asset.json`; one that is up to date is left alone.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib import metadata
from pathlib import Path

import mujoco_usd_converter
import urdf_usd_converter
import usdex.core
from asset_table import ASSETS, RealAsset
from pinocchio_oracle import oracle

DISTRIBUTIONS = (
    "dm_control", "example-robot-data", "mujoco-usd-converter", "newton-usd-schemas", "pin", "robosuite",
    "urdf-usd-converter", "usd-exchange",
)  # fmt: skip
PROCESSES = 2


def fingerprint(original: Path) -> str:
    """Changes whenever the converted asset or its oracle would."""
    versions = " ".join(f"{name}=={metadata.version(name)}" for name in DISTRIBUTIONS)
    sources = [path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))]
    digest = hashlib.sha256(versions.encode())
    for part in (*sources, original.read_bytes()):
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()


def convert(asset: RealAsset, original: Path, target: Path) -> Path:
    """Returns the converted stage."""
    if asset.kind == "mjcf":
        converter = mujoco_usd_converter.Converter()
    else:
        # <package>/robots/<name>_description/...: package:// leads to the first.
        package = next(folder for folder in original.parents if folder.name == asset.distribution)
        converter = urdf_usd_converter.Converter(
            ros_packages=[{"name": asset.distribution, "path": str(package)}]
        )
    return Path(converter.convert(str(original), str(target)).path)


def prepare(output: Path, name: str) -> str:
    asset = ASSETS[name]
    original, target = asset.locate(), output / name
    stamp = fingerprint(original)
    if (target / "stamp").is_file() and (target / "stamp").read_text() == stamp:
        return ""
    usdex.core.activateDiagnosticsDelegate()
    usdex.core.setDiagnosticsLevel(usdex.core.DiagnosticsLevel.eError)
    unfinished = output / f".{name}.partial"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    stage = convert(asset, original, unfinished)
    content = {"asset": stage.name, "original": str(original)}
    if asset.kind == "urdf":
        content["oracle"] = oracle(original, asset.differences)
    (unfinished / "asset.json").write_text(json.dumps(content))
    (unfinished / "stamp").write_text(stamp)
    shutil.rmtree(target, ignore_errors=True)
    unfinished.rename(target)
    return f"test-assets: converted {name}"


def main() -> None:
    with ProcessPoolExecutor(PROCESSES) as pool:
        for line in pool.map(partial(prepare, Path(sys.argv[1])), ASSETS):
            if line:
                print(line, file=sys.stderr)


if __name__ == "__main__":
    main()
