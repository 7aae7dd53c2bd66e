"""Runtime: holds a plan and a backend and moves numbers between them, tick by tick. No ROS here."""
