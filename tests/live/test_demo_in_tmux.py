"""The main job, end to end, as a person sees it: the demo in a real terminal, from silence to the odd rank."""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections.abc import Callable

import psutil

from tests.tmux import Tmux

COMMAND = (sys.executable, "-m", "tui", "demo")


def ranks_below(pid: int) -> list[psutil.Process]:
    """The demo's rank processes below the monitor."""
    below = psutil.Process(pid).children(recursive=True)
    return [process for process in below if "demo::scheduler" in " ".join(process.cmdline())]


def alive(process: psutil.Process) -> bool:
    """Whether it runs, and is not merely waiting to be reaped; it may end while it is asked."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def wait_until(what: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if what():
            return True
        time.sleep(0.1)
    return False


def test_the_demo_from_silence_to_the_odd_rank(beside_truth: None) -> None:
    """One launch deadlocks and one compiles, at the same time and on the production clock.

    The first is HUNG with its reasons within 90 s of the silence (plus the time until it goes silent); ``d`` names the
    odd rank and harms nobody; ``A`` brings a dump of every rank; quitting leaves no process. The second is never
    suspected, and becomes READY.
    """
    with (
        Tmux(COMMAND, columns=200, rows=50) as hung,
        Tmux((*COMMAND, "--healthy"), columns=120, rows=40) as healthy,
    ):
        hung.wait_for(r"SIMULATED", 10)
        hung.wait_for(r"64/64", 40)
        silent_since = time.monotonic()
        ranks = ranks_below(hung.pane_pid())
        assert len(ranks) == 8
        alarms: set[str] = set()
        while time.monotonic() - silent_since < 100 and not re.search(r"\bHUNG\b", hung.screen()):
            alarms |= set(re.findall(r"\b(?:SUSPECT|HUNG|CRASHED)\b", healthy.screen()))
            time.sleep(1)
        screen = hung.screen()
        assert "HUNG" in screen, screen
        assert re.search(r"0 %|asleep", screen), screen
        assert len(re.findall(r"(?m)H200", screen)) >= 8, screen

        hung.press("d")
        hung.wait_for(r"ShardCache\.share_embeddings", 15)
        odd = hung.wait_for(r"[Rr]ank (\d).*share_embeddings", 5)
        assert all(rank.status() != psutil.STATUS_STOPPED and rank.is_running() for rank in ranks)

        hung.press("Escape")  # by itself: an escape with a key close behind it is Alt and that key
        hung.wait_for(r"evidence", 5)
        hung.press("A")
        hung.wait_for(r"abort", 5)
        time.sleep(0.7)
        hung.press(*"abort", "Enter")
        assert wait_until(lambda: not any(map(alive, ranks)), 20)
        hung.press("v")
        hung.wait_for(r"faulthandler", 10)
        hung.wait_for(rf"rank {odd[1]}\b", 5)
        monitor = psutil.Process(hung.pane_pid())
        everyone = [monitor, *monitor.children(recursive=True)]
        hung.press("Escape")
        time.sleep(1)
        hung.press("q")
        assert wait_until(lambda: not any(map(alive, everyone)), 8)

        healthy.wait_for(r"\bREADY\b", 180)
        assert not alarms
