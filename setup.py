"""Packaging: the metadata for pip and for colcon (build type ament_python)."""

import re
import sys
from pathlib import Path

from setuptools import find_packages, setup

NAME = "usd_ros_bridge"
REPOSITORY = "https://github.com/usd-ros-bridge/usd_ros_bridge"
"""The only home of this address; mkdocs.yml repeats it."""
BRANCH = "main"
ROOT = Path(__file__).resolve().parent
EXECUTABLES = ("bridge", "robot_state_publisher", "usd_ros_bridge")
"""The names that `ros2 run` knows."""
PROJECTS = ("plugins", "testing")
"""Folders of examples/ that are projects of their own, to copy from the repository: they are not installed."""
BY_COLCON = not {"install", "develop"}.isdisjoint(sys.argv[1:])
"""pip and build ask for wheels; only colcon (ament_python) calls `setup.py install` and `setup.py develop`."""


def version() -> str:
    """The version, from its only home: the package itself."""
    text = (ROOT / NAME / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"{NAME}/__init__.py defines no __version__")
    return found.group(1)


def tree(folder: str, *patterns: str) -> list[tuple[str, list[str]]]:
    """Rows of data_files that install a folder with all below it under share/usd_ros_bridge."""
    rows: dict[str, list[str]] = {}
    for pattern in patterns:
        for path in sorted((ROOT / folder).rglob(pattern)):
            relative = path.relative_to(ROOT)
            if path.is_file() and "__pycache__" not in path.parts and relative.parts[1] not in PROJECTS:
                rows.setdefault(f"share/{NAME}/{relative.parent.as_posix()}", []).append(relative.as_posix())
    return sorted(rows.items())


def ros_requirements(distro: str) -> list[str]:
    """The wheels of a ROS 2 distribution, every one pinned as `make setup` pins it, and the interfaces for it.

    The version of the interfaces begins with the major version of the distribution's rclpy (tools/build_interfaces.py).
    """
    text = (ROOT / "tools" / "requirements" / f"{distro}.txt").read_text(encoding="utf-8")
    pins = [line for line in text.splitlines() if line and not line.startswith("#")]
    rclpy = next(pin for pin in pins if pin.startswith("ros-rclpy=="))
    return [*pins, f"{NAME}_interfaces=={rclpy.partition('==')[2].split('.')[0]}.{version()}"]


def long_description() -> str:
    """README.md for PyPI, which has no files beside it: links and pictures have addresses of the repository."""
    readme = ROOT / "README.md"
    if not readme.exists():
        return ""

    def address(link: re.Match[str]) -> str:
        view = "raw" if link["picture"] else "blob"
        return f"{link['picture']}[{link['text']}]({REPOSITORY}/{view}/{BRANCH}/{link['target']})"

    # A target with a colon has a scheme already; one with a number sign is a heading of README.md.
    relative = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^):#][^):]*)\)")
    return relative.sub(address, readme.read_text(encoding="utf-8"))


def console_scripts() -> list[str]:
    """The executables in bin/; colcon's go to lib/usd_ros_bridge (setup.cfg), where `ros2 run` looks.

    A wheel has its own files there (executables/), and no `bridge` in bin/: iproute2 has a program of that name.
    """
    names = EXECUTABLES if BY_COLCON else [name for name in EXECUTABLES if name != "bridge"]
    return [f"{name} = {NAME}.entry_points:{name}" for name in names]


FEATURES = {
    "usd": ["usd-core>=26.5"],
    "mujoco": ["mujoco>=3.3", "coacd>=1.0.5"],
    "cli": ["rich", "click", "textual>=1.0", "PyYAML"],
    "watch": ["watchfiles>=0.21"],
    "images": ["pillow"],
    "view": ["viser>=1.0"],
    "bags": ["rosbags>=0.11"],
    "filters": ["regex>=2022.10"],
    "record": ["foxglove-sdk>=0.30", "mcap>=1.2", "rosbags>=0.11"],
}
ALL = sorted({requirement for requirements in FEATURES.values() for requirement in requirements})

setup(
    name=NAME,
    version=version(),
    description="OpenUSD robots as live ROS 2 topics, frames, services and actions (REP 0158)",
    long_description=long_description(),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    author="usd_ros_bridge maintainers",
    maintainer="usd_ros_bridge maintainers",
    maintainer_email="usd_ros_bridge@users.noreply.github.com",
    url=REPOSITORY,
    project_urls={
        "Source": REPOSITORY,
        "Issues": f"{REPOSITORY}/issues",
        "Changelog": f"{REPOSITORY}/blob/{BRANCH}/CHANGELOG.md",
    },
    keywords=["ROS 2", "OpenUSD", "robotics", "simulation"],
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering",
        "Typing :: Typed",
    ],
    python_requires=">=3.10",
    packages=find_packages(include=[NAME, f"{NAME}.*"]),
    package_data={
        NAME: [
            "py.typed",
            "export/*.json",
            "importing/*.txt",
            "model/ledger/*.csv",
            "report/*.css",
            "report/*.js",
            "sweep/*.json",
            "usd/schemas/**",
            *(f"usd/resolver/*.{end}" for end in ("cpp", "hpp", "json")),
        ]
    },
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml"]),
        *tree("launch", "*.launch.py"),
        *tree("config", "*"),
        *tree("examples", "*"),
        *([] if BY_COLCON else [(f"lib/{NAME}", [f"executables/{name}" for name in EXECUTABLES])]),
    ],
    # usd-core stays an extra: inside a simulator the host's own pxr is used, and a second one would clash with it.
    # SciPy finds hulls of meshes: without it an asset would have other masses.
    install_requires=["numpy", "scipy"],
    extras_require={
        **FEATURES,
        # Everything but ROS, for where it is installed already; then everything with ROS.
        "all": ALL,
        **{distro: [*ALL, *ros_requirements(distro)] for distro in ("jazzy", "kilted")},
        "newton": ["newton[sim]>=1.8", "newton-usd-schemas>=0.6", "usd-core>=26.5,<26.9"],
        # Sweeps. Not in "all": Ray and pyarrow take 400 MB.
        "ray": [
            *("usd-core>=26.5", "mujoco>=3.3", "coacd>=1.0.5", "rich", "click"),
            *("ray>=2.40", "pyarrow>=15", "matplotlib>=3.7", "jsonschema>=4.18", "PyYAML"),
        ],
        # Without the converters, which bring a pxr that overwrites usd-core's: import installs them elsewhere.
        "import": ["usd-core>=26.5", "rich", "click", "PyYAML"],
        # Headers and library are of one release: C++ classes of another one are laid out otherwise.
        "resolver": ["usd-core==26.8", "pxr-ar-dev==26.8"],
        "test": [
            "pytest",
            "pytest-timeout",
            "hypothesis",
            "pillow",
            "PyYAML",
            "rosbags",
            "mcap",
            "trimesh",
            "websockets",
            "newton-usd-schemas",
        ],
    },
    zip_safe=False,
    entry_points={
        "console_scripts": console_scripts(),
        # ros2cli loads it, and nothing else: an environment without ros2cli does not import it.
        "ros2cli.command": [f"usd = {NAME}.cli.ros2_usd_command:UsdCommand"],
        # The name is the module's: pytest then knows it as loaded, whoever else names it in `pytest_plugins`.
        "pytest11": [f"{NAME}.testing.pytest_plugin = {NAME}.testing.pytest_plugin"],
    },
)
