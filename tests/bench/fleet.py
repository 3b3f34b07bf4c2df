"""What the monitor costs beside many hosts with eight GPUs each: ``python -m tests.bench.fleet [HOSTS] [SECONDS]``.

Every host is a real agent on this machine, all of them watching the demo's launch; only the connection is a pipe
instead of ssh (``asyncssh`` adds about 2.2 CPU s a minute for 64 hosts). Measured once the launch hangs, on a terminal
of 200x50. Aims, in CPU s a minute: 1.4 for this machine alone, 2 for 4 hosts, 5 for 64, 10 for 128.
"""

from __future__ import annotations

import os
import sys
import tempfile

from tests.bench.idle import APPEARS_WITHIN_S, VERDICT, Program
from tests.bench.screen import compiled_in, cpu_s

AIMS = {1: 1.4, 4: 2.0, 64: 5.0, 128: 10.0}
MONITOR = """
import sys
from tui.collect.local import LocalChannel
from tui.demo.launch import DemoLaunch
from tui.session.live import LiveSession
from tui.session.plan import Plan, usual_interval_s
from tui.ui.app import GputopApp

launch = DemoLaunch(healthy=False)
launch.start()
hosts = [(f"gpu{n:03}", LocalChannel(simulate=launch.simulation())) for n in range(int(sys.argv[1]))]
plan = Plan(tuple(hosts), usual_interval_s(len(hosts)), pids=((None, launch.parent_pid),))
try:
    GputopApp(lambda: LiveSession(plan)).run()
finally:
    launch.stop()
"""


def main(hosts: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        program = Program((sys.executable, "-c", MONITOR, str(hosts)), compiled_in(folder))
        hung = program.read_for(APPEARS_WITHIN_S, VERDICT)
        program.read_for(5.0)
        spent, written = cpu_s(program.pid), program.written
        program.read_for(seconds)
        spent, written = (cpu_s(program.pid) - spent) * 60 / seconds, (program.written - written) * 60 / seconds
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, {seconds:.0f} s, {'' if hung else 'not '}hung")
        print(f"{hosts} hosts, CPU a minute      {spent:6.2f} s   aim {AIMS.get(hosts, '')}")
        print(f"terminal, bytes a minute {written / 1000:5.0f} kB")
        program.end()


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    main(*(numbers + [4, 30][len(numbers) :]))
