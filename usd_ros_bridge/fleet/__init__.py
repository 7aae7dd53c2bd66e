"""Fleets: several bridges of one stage, in processes that find each other over ROS 2.

Nothing here imports OpenUSD or ROS: launch files use it, too.
"""
