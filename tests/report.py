"""How good the verdict is, as tables: ``python -m tests.report [SCENARIO_FOLDER ...]``.

The recorded start-ups that are kept here and those given as folders, the own ones (those that were used while tuning,
and those held back), the variants of all, and what is left without one of the three kinds of evidence.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

from tests.scenario_fourth_round import FOURTH
from tests.scenario_second_round import SECOND
from tests.scenario_stories import HELD_BACK, LATER, STORIES, TUNED
from tests.scenario_third_round import THIRD
from tests.scenario_variants import ABLATIONS, ALL, Variant
from tui.headless.score import Score, score

RECORDED = Path(__file__).parent / "scenarios"

FIRST_LOOK = "own, second round, unseen    22/25      0   15/20   19/19    2/3   61  120  627 9/12"
"""What the second round came to when it had been written and no rule had been touched for it: jitter in resident memory
passed for growth, a request that ends in sleep for rest, cores that poll each other for work, for ever."""

THIRD_LOOK = "own, third round, unseen      6/13      2     6/9    9/10    1/3   74  139  272 3/5"
"""The same of the third: a survived lack of memory and late nodes were alarms, MPI's waiters passed for work, errors
that nobody caught and the ranks that they came from were overlooked, engines and silent downloads had no phase."""

FOURTH_LOOK = "own, fourth round, unseen    27/34      2   19/26   24/27    3/4   99  177  583 13/13"
"""The same of the fourth: a download that tries again and an encoder's profile were alarms, a server that had been
ready for long was no server, a job killed as a whole had ended, and an end that only the log tells was overlooked."""


def recorded() -> list[Path]:
    return sorted(path for path in RECORDED.iterdir() if (path / "truth.toml").exists())


def row(name: str, scores: Sequence[Score]) -> str:
    """One line of a table: passed, alarms at healthy ones, shares, and seconds until suspect and hung."""

    def share(values: Iterable[bool | None]) -> str:
        known = [value for value in values if value is not None]
        return f"{sum(known)}/{len(known)}"

    hung = [s for s in scores if s.outcome == "hung" and s.signals]
    suspects = [s.suspect_s for s in hung if s.suspect_s is not None]
    finals = [s.latency_s for s in hung if s.latency_s is not None]
    times = (
        f"{median(suspects):4.0f} {median(finals):4.0f} {max(finals):4.0f}" if suspects and finals else "   -    -    -"
    )
    alarms = sum(1 for s in scores if s.outcome.startswith("ready") and s.hard_errors)
    return (
        f"{name:<26} {share(s.passed for s in scores):>7} {alarms:>6} {share(s.cause for s in scores):>7} "
        f"{share(s.phase_at_end for s in scores):>7} {share(s.odd_ranks for s in scores):>6} {times} "
        f"{len(finals)}/{len(hung)}"
    )


HEAD = f"{'':<26} {'passed':>7} {'alarms':>6} {'cause':>7} {'phase':>7} {'odd':>6} susp hung wrst called"


def seen_otherwise(paths: Iterable[Path], variant: Variant, folder: Path) -> list[Score]:
    return [score(variant(path, folder / path.name)) for path in paths]


def main(given: list[Path]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        room = Path(scratch)
        own = {name: STORIES[name]().write(room / "own" / name) for name in sorted(STORIES)}
        known = given or recorded()
        everything = [*known, *own.values()]
        print(HEAD)
        print(row("recorded", [score(path) for path in known]))
        print(row("own, used in tuning", [score(own[name]) for name in TUNED]))
        print(row("own, held back", [score(own[name]) for name in HELD_BACK]))
        print(row("own, written afterwards", [score(own[name]) for name in LATER]))
        print(FIRST_LOOK)
        print(row("own, second round, now", [score(own[name]) for name in SECOND]))
        print(THIRD_LOOK)
        print(row("own, third round, now", [score(own[name]) for name in THIRD]))
        print(FOURTH_LOOK)
        print(row("own, fourth round, now", [score(own[name]) for name in FOURTH]))
        for title, variants in (("variants of all", ALL), ("ablations of all", ABLATIONS)):
            print(f"\n{title}\n{HEAD}")
            for name, variant in variants.items():
                print(row(name, seen_otherwise(everything, variant, room / name)), flush=True)


if __name__ == "__main__":
    main([Path(word) for word in sys.argv[1:]])
