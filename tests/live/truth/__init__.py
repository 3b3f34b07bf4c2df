"""Real hangs and real slowness, each judged by the live monitor on the production clock."""
