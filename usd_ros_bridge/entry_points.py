"""Entry points of the executables; only their scripts import this module.

Its first statements take SIGINT and SIGTERM, before anything else of the package is imported: until then Python
answers SIGINT with a traceback. What comes before, Python's own start with the environment's .pth files, is not ours.
"""

# Built into Python: the module signal around it reads files first.
from _signal import SIGINT, SIGTERM, signal  # type: ignore[import-not-found]
from os import _exit

for _number in (SIGINT, SIGTERM):
    signal(_number, lambda number, _frame: _exit(128 + number))

TYPE_CHECKING = False  # That of typing, whose import takes longer than all of this.
if TYPE_CHECKING:
    from typing import NoReturn


def usd_ros_bridge() -> "NoReturn":
    """Run the command line, `usd_ros_bridge`."""
    from usd_ros_bridge.process_settings import own_process

    with own_process():
        from usd_ros_bridge.cli.main import main

        main()


def bridge() -> "NoReturn":
    """Run the node, `ros2 run usd_ros_bridge bridge`."""
    from usd_ros_bridge.process_settings import own_process

    with own_process():
        from usd_ros_bridge.planner_process import start_planner
        from usd_ros_bridge.start_phases import EARLY_AFTER_S, LogView, StartPhases

        phases, planner = StartPhases(LogView(early_after=EARLY_AFTER_S)), start_planner()
        from usd_ros_bridge.ros.node import main

        main(planner=planner, phases=phases)


def robot_state_publisher() -> "NoReturn":
    """Run robot_state_publisher for OpenUSD, `ros2 run usd_ros_bridge robot_state_publisher`."""
    from usd_ros_bridge.process_settings import own_process

    with own_process():
        from usd_ros_bridge.planner_process import start_planner
        from usd_ros_bridge.start_phases import EARLY_AFTER_S, LogView, StartPhases

        phases, planner = StartPhases(LogView(early_after=EARLY_AFTER_S)), start_planner()
        from usd_ros_bridge.options import ROBOT_STATE_PUBLISHER
        from usd_ros_bridge.ros.node import main

        main(role=ROBOT_STATE_PUBLISHER, planner=planner, phases=phases)
