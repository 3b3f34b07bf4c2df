"""The table of the truth tests: what was said of each case, after how long, and what the next probe is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.live.truth import gaps
from tests.live.truth.watching import Course, faults


def as_plain(courses: Iterable[Course], gone_through: Iterable[gaps.Gap]) -> dict[str, Any]:
    """Everything that is asked of the courses, in plain values: by name why it did not run, what is wrong, and the
    course in words; and the table of all."""
    courses = list(courses)
    told: dict[str, Any] = {"table": table(courses)}
    told["courses"] = {
        course.name: {
            "skipped": course.skipped,
            "wrong": [] if course.skipped else faults(course),
            "text": course_text(course),
        }
        for course in courses
    }
    told["gaps"] = {gap.name: {"wrong": gaps.faults(gap), "text": gaps.text(gap)} for gap in gone_through}
    return told


def table(courses: Iterable[Course]) -> str:
    rows = [("case", "suspect", "hung", "at the end", "cause", "strength", "odd", "probe", "stacks name", "phase")]
    for course in courses:
        if course.skipped or course.last is None:
            rows.append((course.name, "", "", course.skipped or "never shown", *[""] * 6))
            continue
        last = course.last.verdict
        odd = ",".join(str(odd.rank if odd.rank is not None else odd.role) for odd in last.odd)
        times = (_seconds(course.after_s("suspect")), _seconds(course.after_s("hung", "crashed")))
        shown = (last.id, last.cause or "", last.strength, odd, last.next_probe or "", _by_stacks(course), last.phase)
        rows.append((course.name, *times, *shown))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def course_text(course: Course) -> str:
    """What was said of one case, step by step, and what is wrong with it."""
    lines = [f"== {course.name}: {course.case.what}"]
    begun = course.fault_t
    for said in course.said:
        when = f"{said.t - begun:+7.1f} s" if begun is not None else "      ?  "
        verdict = said.verdict
        lines.append(
            f"  {when} {verdict.id:12} {verdict.cause or '-':16} {verdict.phase:14} {' | '.join(verdict.reasons)[:230]}"
        )
    if course.last is not None:
        last = course.last.verdict
        lines.append(
            f"  at the end: {last.id} {last.cause} alive {last.alive}/{last.expected} still {last.still_s:.0f} s"
        )
        lines += [f"    - {reason}" for reason in last.reasons]
        lines += [f"    odd: rank {odd.rank} {odd.role} {odd.pid}: {odd.why}" for odd in last.odd]
    lines += [f"  WRONG: {text}" for text in (faults(course) if not course.skipped else [])]
    return "\n".join(lines)


def _by_stacks(course: Course) -> str:
    merged = course.dump.merged if course.dump is not None else None
    return "" if merged is None else ",".join(map(str, merged.odd_ranks)) or "nobody"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.0f} s"
