"""The newton backend: Newton's own import of the stage, simulated by its MuJoCo solver, on the CPU or on a GPU."""

from usd_ros_bridge.backends.newton.backend import NewtonBackend

__all__ = ["NewtonBackend"]
