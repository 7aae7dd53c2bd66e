"""Fleets: several bridges of one stage, in processes of one or more machines, joined by the ROS graph.

Nothing here imports OpenUSD or ROS: launch files use it, too.
"""
