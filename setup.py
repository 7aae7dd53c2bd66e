"""Packaging: the metadata for pip and for colcon (build type ament_python)."""

import re
from pathlib import Path

from setuptools import find_packages, setup

NAME = "usd_ros_bridge"
ROOT = Path(__file__).resolve().parent


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
            if path.is_file() and "__pycache__" not in path.parts:
                relative = path.relative_to(ROOT)
                rows.setdefault(f"share/{NAME}/{relative.parent.as_posix()}", []).append(relative.as_posix())
    return sorted(rows.items())


setup(
    name=NAME,
    version=version(),
    description="OpenUSD robots as live ROS 2 topics, frames, services and actions (REP 0158)",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8")
    if (ROOT / "README.md").exists()
    else "",
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    author="usd_ros_bridge maintainers",
    maintainer="usd_ros_bridge maintainers",
    maintainer_email="usd_ros_bridge@users.noreply.github.com",
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
        NAME: ["py.typed", "usd/schemas/**", *(f"usd/resolver/*.{end}" for end in ("cpp", "hpp", "json"))]
    },
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml"]),
        *tree("launch", "*.launch.py"),
        *tree("config", "*"),
        *tree("examples", "*"),
    ],
    # usd-core stays an extra: inside a simulator the host's own pxr is used, and a second one would clash with it.
    install_requires=["numpy"],
    extras_require={
        "usd": ["usd-core>=26.5"],
        "mujoco": ["mujoco>=3.3", "coacd>=1.0.5", "scipy"],
        "newton": ["newton[sim]>=1.8", "newton-usd-schemas>=0.6", "usd-core>=26.5,<26.9"],
        "cli": ["rich", "click", "textual>=1.0"],
        "watch": ["watchfiles>=0.21"],
        "images": ["pillow"],
        # Headers and library are of one release: C++ classes of another one are laid out otherwise.
        "resolver": ["usd-core==26.8", "pxr-ar-dev==26.8"],
        "test": ["pytest", "pytest-timeout", "hypothesis", "pillow", "PyYAML", "scipy", "rosbags", "trimesh"],
    },
    zip_safe=False,
    entry_points={
        "console_scripts": [
            f"{NAME} = {NAME}.entry_points:{NAME}",
            f"bridge = {NAME}.entry_points:bridge",
            f"robot_state_publisher = {NAME}.entry_points:robot_state_publisher",
        ],
        f"{NAME}.backends": [
            f"null = {NAME}.backends.null:NullBackend",
            f"kinematic = {NAME}.backends.kinematic:KinematicBackend",
            f"playback = {NAME}.backends.playback:PlaybackBackend",
            f"joint_states = {NAME}.backends.joint_states:JointStatesBackend",
            f"mujoco = {NAME}.backends.mujoco:MujocoBackend",
            f"newton = {NAME}.backends.newton:NewtonBackend",
        ],
    },
)
