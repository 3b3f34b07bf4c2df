"""gputop-hang: a live monitor that tells a slow machine-learning launch from a hung one."""

__version__ = "0.1.0"
