"""Makes the README's pictures: the real demo in the real application, exported as SVG when each moment comes.

``python -m tests.ui.pictures [FOLDER]``; takes about two minutes, most of it the silence before the verdict. With
rsvg-convert and ImageMagick's convert on the machine the moments are also put together to ``incident.gif``.
"""

from __future__ import annotations

import asyncio
import html
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tui.demo.launch import DemoLaunch
from tui.session.live import LiveSession
from tui.session.plan import plan_demo
from tui.ui.app import GputopApp

ROOT = Path(__file__).parents[2]
SIZE = (168, 46)
FILM_WIDTH = 1344
COLOURS = 48


async def make(folder: Path) -> None:
    launch = DemoLaunch(healthy=False)
    launch.start()
    frames: list[tuple[str, float]] = []
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

            def silent(seconds: float) -> bool:
                return bool(app.view.launch) and (app.view.launch.verdict.silent_s or 0.0) >= seconds

            def picture() -> str:
                return app.export_screenshot(title="gputop-hang demo").replace(f"{ROOT}/", "")

            def frame(seconds: float) -> None:
                frames.append((picture(), seconds))

            def save(name: str) -> None:
                (folder / name).write_text(picture())

            for shards in (8, 24, 40, 56, 64):
                await when(lambda n=shards: _shards(app) >= n, 60)
                frame(0.7)
            for seconds in (5, 15, 25, 35, 45, 55, 65, 75):
                await when(lambda s=seconds: silent(s) or "HUNG" in text(), 60)
                if "HUNG" not in text():
                    frame(0.9)
            await when(lambda: "HUNG" in text(), 150)
            await pilot.pause(2)
            save("hung.svg")
            frame(4.0)
            await pilot.press("d")
            await when(lambda: "share_embeddings" in text(), 20)
            await pilot.pause(2)
            frame(6.0)
            await pilot.resize_terminal(104, 30)  # the merged stacks alone
            await pilot.pause(1)
            save("stacks.svg")
    finally:
        launch.stop()
    film(frames, folder / "incident.gif")


def _shards(app: GputopApp) -> float:
    launch = app.view.launch
    return launch.verdict.progress.done if launch and launch.verdict.progress else 0.0


_TEXT = re.compile(r'<text ([^>]*?)x="([\d.]+)"([^>]*)>([^<]*)</text>')
_CELL = 12.2
"""The width of a character in Rich's SVG export, whose font is 20 units high."""


def for_rsvg(svg: str) -> str:
    """The picture as rsvg-convert can draw it: it drops blanks at the beginning of a text, and where the font lacks a
    character (braille) the one that stands in has another width. Each text begins with a visible character, and each
    braille one is set by itself."""

    def placed(match: re.Match[str]) -> str:
        before, x, after, inner = match.groups()
        text = html.unescape(inner).replace("\xa0", " ")
        start = float(x)
        after = re.sub(r' textLength="[^"]*"', "", after)
        pieces = [(i, c) for i, c in enumerate(text) if c > " "] if any("\u2800" <= c <= "\u28ff" for c in text) else []
        pieces = pieces or [(len(text) - len(text.lstrip()), text.strip())]
        return "".join(
            f'<text {before}x="{start + _CELL * i:.1f}"{after} xml:space="preserve">{html.escape(said)}</text>'
            for i, said in pieces
            if said
        )

    return _TEXT.sub(placed, svg)


def film(frames: list[tuple[str, float]], path: Path) -> None:
    """The frames, each for its seconds, in a loop."""
    if not (shutil.which("rsvg-convert") and shutil.which("convert")):
        print("no film: rsvg-convert or ImageMagick's convert is missing")
        return
    with tempfile.TemporaryDirectory() as room:
        command: list[str] = ["convert", "-loop", "0"]
        for number, (svg, seconds) in enumerate(frames):
            picture = Path(room) / f"{number}.svg"
            picture.write_text(for_rsvg(svg))
            png = picture.with_suffix(".png")
            subprocess.run(["rsvg-convert", "-w", str(FILM_WIDTH), "-o", str(png), str(picture)], check=True)
            command += ["-delay", str(int(100 * seconds)), str(png)]
        palette = Path(room) / "palette.png"
        last = [str(Path(room) / f"{number}.png") for number in range(max(0, len(frames) - 2), len(frames))]
        colours = ["+dither", "-colors", str(COLOURS), "-unique-colors"]
        subprocess.run(["convert", *last, "-append", *colours, str(palette)], check=True)
        subprocess.run([*command, "+dither", "-remap", str(palette), "-layers", "optimize", str(path)], check=True)


if __name__ == "__main__":
    asyncio.run(make(Path(sys.argv[1] if len(sys.argv) > 1 else ".github")))
