"""``python -m tests.live.truth [SECONDS] [NAME ...]``: run the cases and print the table of what was said when.

``gaps`` as a name runs the gaps in observation as well.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path

from tests.live.truth import gaps
from tests.live.truth.cases import CASES
from tests.live.truth.launching import Stage
from tests.live.truth.report import as_plain
from tests.live.truth.watching import Course, run
from tests.sshd import SshdFarm

SECONDS = 210.0


async def everything(stage: Stage, names: list[str], seconds: float) -> tuple[list[Course], list[gaps.Gap]]:
    farm = SshdFarm(stage.folder)
    cases = [case for case in CASES if not names or case.name in names]
    through = (gaps.sshd_killed(stage, farm), gaps.monitor_suspended(stage)) if not names or "gaps" in names else ()
    try:
        courses, *gone_through = await asyncio.gather(run(cases, stage, seconds, late=seconds > 90.0), *through)
        return courses, gone_through
    finally:
        farm.stop()


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="SECONDS NAME", help="how long, and which cases; all without")
    parser.add_argument("--json", type=Path, help="write what was told into this file, when all is told")
    options = parser.parse_args(words)
    names: list[str] = options.names
    seconds = float(names.pop(0)) if names and names[0].isdigit() else SECONDS
    with tempfile.TemporaryDirectory(prefix="gputop-hang-truth-") as folder:
        stage = Stage(Path(folder))
        try:
            courses, gone_through = asyncio.run(everything(stage, names, seconds))
        finally:
            stage.stop()
        told = as_plain(courses, gone_through)
    if options.json is not None:
        options.json.write_text(json.dumps(told))
    both = [*told["courses"].values(), *told["gaps"].values()]
    print(*(part["text"] for part in both), told["table"], sep="\n")
    return int(any(part["wrong"] for part in both))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
