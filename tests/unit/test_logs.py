"""Every framework's log, healthy and stuck, in the versions between which the format changed: the phase after each
line, live and late, and what the reader knows in the end."""

from __future__ import annotations

import pytest

from tests.log_cases import LogCase, load_cases

CASES = load_cases()


def _name(case: LogCase) -> str:
    return case.name


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_the_phase_is_right_after_every_line(case: LogCase) -> None:
    assert case.head["source"] and "framework" in case.head
    reader, seen = case.read()
    wrong = [(row.t, row.phase, said, row.data) for row, said in seen if row.phase not in ("-", said)]
    assert not wrong
    case.check(reader, live=True)


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_the_same_is_known_when_it_lay_there(case: LogCase) -> None:
    """Late attach: one lump, no arrival times. Where the log has stamps, phases begin when they say."""
    live, _ = case.read()
    late = case.read_late()
    assert [phase for phase, _ in late.run.spans] == [phase for phase, _ in live.run.spans]
    assert not late.heard
    case.check(late, live=False)
    if case.head.get("stamps") == "yes":
        pairs = zip(late.run.spans, live.run.spans, strict=True)
        assert all(t is not None and true is not None and abs(t - true) <= 2.0 for (_, t), (_, true) in pairs)
