"""Makes the README's pictures: the real demo in the real application, exported as SVG when each moment comes.

``python -m tests.ui.pictures [FOLDER]``; takes about two minutes, most of it the silence before the verdict.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tui.demo.launch import DemoLaunch
from tui.session.live import LiveSession
from tui.session.plan import plan_demo
from tui.ui.app import GputopApp

SIZE = (168, 46)


async def make(folder: Path) -> None:
    launch = DemoLaunch(healthy=False)
    launch.start()
    try:
        plan = plan_demo(launch)
        plan.start_local()
        app = GputopApp(lambda: LiveSession(plan), theme="dusk")
        async with app.run_test(size=SIZE) as pilot:

            def text() -> str:
                return "\n".join(strip.text for strip in app.screen._compositor.render_strips())

            async def when(holds: Callable[[], bool], timeout_s: float) -> None:
                deadline = time.monotonic() + timeout_s
                while not holds():
                    assert time.monotonic() < deadline, text()
                    await pilot.pause(0.25)

            def save(name: str) -> None:
                (folder / name).write_text(app.export_screenshot(title="gputop-hang demo"))

            await when(lambda: "HUNG" in text(), 150)
            await pilot.pause(2)
            save("hung.svg")
            await pilot.resize_terminal(104, 30)  # the merged stacks alone
            await pilot.press("d")
            await when(lambda: "share_embeddings" in text(), 20)
            await pilot.pause(1)
            save("stacks.svg")
    finally:
        launch.stop()


if __name__ == "__main__":
    asyncio.run(make(Path(sys.argv[1] if len(sys.argv) > 1 else ".github")))
