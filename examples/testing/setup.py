"""An ament_python package: for pip, and for colcon without CMake."""

from setuptools import setup

NAME = "rover_test"

setup(
    name=NAME,
    version="1.0.0",
    packages=[NAME],
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml"]),
    ],
    install_requires=["setuptools"],
    extras_require={"test": ["pytest", "usd_ros_bridge"]},
    zip_safe=True,
)
