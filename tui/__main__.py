"""``python -m tui`` is the same command as ``gputop-hang``."""

from tui.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
