"""Run the command line: `python -m usd_ros_bridge.cli`."""

from usd_ros_bridge.process_settings import own_process

with own_process():
    from usd_ros_bridge.cli.main import main

    main()
