"""``python -m tests.live.truth [SECONDS] [NAME ...]``: run the cases and print the table of what was said when.

``gaps`` as a name runs the gaps in observation as well.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.live.truth import gaps
from tests.live.truth.cases import CASES
from tests.live.truth.launching import Stage
from tests.live.truth.report import course_text, table
from tests.live.truth.watching import Course, faults, run
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


def main(names: list[str]) -> int:
    seconds = float(names.pop(0)) if names and names[0].isdigit() else SECONDS
    with tempfile.TemporaryDirectory(prefix="gputop-hang-truth-") as folder:
        stage = Stage(Path(folder))
        try:
            courses, gone_through = asyncio.run(everything(stage, names, seconds))
        finally:
            stage.stop()
        for course in courses:
            print(course_text(course))
        for gap in gone_through:
            print(gaps.text(gap))
        print(table(courses))
        wrong = [course for course in courses if not course.skipped and faults(course)]
        return int(bool(wrong) or any(gaps.faults(gap) for gap in gone_through))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
