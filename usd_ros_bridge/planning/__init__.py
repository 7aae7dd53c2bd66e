"""Planning: records to plan. Pure; neither OpenUSD nor ROS is imported."""
