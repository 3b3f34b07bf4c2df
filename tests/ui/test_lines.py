"""Lines fit their width whatever the text, words stay whole where they can, bars and histories mean what they say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tui.ui import lines
from tui.ui.widgets.pane import changed_width

TEXTS = st.text(alphabet="ab cdé漢字/._-[]=  …", max_size=120)


@given(TEXTS, st.integers(min_value=4, max_value=60))
def test_wrapped_rows_fit_and_lose_nothing(text: str, width: int) -> None:
    rows = lines.wrap(text, width)
    assert all(cell_len(row) <= width for row in rows)
    assert "".join("".join(rows).split()) == "".join(text.split())


@given(TEXTS, st.integers(min_value=1, max_value=60))
def test_a_padded_or_cut_line_has_exactly_its_width(text: str, width: int) -> None:
    assert lines.width_of(lines.pad([(text, "text"), ("tail", "dim")], width)) == width


@given(TEXTS, st.integers(min_value=2, max_value=60))
def test_a_fitted_text_is_never_wider(text: str, width: int) -> None:
    assert cell_len(lines.fit(text, width)) <= width
    assert cell_len(lines.fit_left(text, width)) <= width


def test_texts_are_shortened_between_words() -> None:
    assert lines.fit("rank 5 waits for a lock", 18) == "rank 5 waits for…"
    assert lines.fit_left("/var/log/serve/orion.log", 16) == "…/orion.log"


def test_wrapping_breaks_words_only_where_they_exceed_a_row() -> None:
    assert lines.wrap("all of them wait", 8) == ["all of", "them", "wait"]
    assert lines.wrap("/srv/models/orion-v3-fp8/part", 14) == ["/srv/models/", "orion-v3-fp8/", "part"]


def test_a_table_gives_up_its_least_important_columns_first() -> None:
    columns = (lines.Column("a", "a", 5), lines.Column("b", "b", 5, drop=1), lines.Column("c", "c", 5, drop=2))
    assert [c.key for c, _ in lines.fit_columns(columns, 20)] == ["a", "b", "c"]
    assert [c.key for c, _ in lines.fit_columns(columns, 18)] == ["a", "b"]
    assert [c.key for c, _ in lines.fit_columns(columns, 6)] == ["a"]


def test_a_bar_shows_something_for_a_little_and_nothing_for_the_unknown() -> None:
    assert lines.plain(lines.bar(0.0, 4)) == "────"
    assert lines.plain(lines.bar(0.001, 4)) == "╾───"
    assert lines.plain(lines.bar(0.5, 4)) == "━━──"
    assert lines.plain(lines.bar(7.0, 4)) == "━━━━"
    assert lines.plain(lines.bar(None, 4)) == "╌╌╌╌"


def test_a_history_tells_zero_from_no_reading() -> None:
    assert lines.spark([None, None, 0.0, 0.0, 100.0, 100.0], 3) == "⠀⣀⣿"
    assert lines.spark([0.0], 2) == "⠀⢀"
    assert lines.block(None) != lines.block(0.0)


@given(st.lists(st.tuples(TEXTS, st.sampled_from(["text", "dim", "badge-hung", "struck"])), max_size=8))
def test_merging_spans_keeps_the_text(line: list[tuple[str, str]]) -> None:
    assert lines.plain(lines.merge(line)) == lines.plain(line)


@given(st.lists(st.tuples(TEXTS, st.sampled_from(["text", "dim", "badge-hung"])), max_size=5), st.data())
def test_what_is_left_alone_of_a_line_is_the_same_in_both(old: list[tuple[str, str]], data: st.DataObject) -> None:
    """Behind the changed width two rows show the same characters in the same look, blanks apart."""
    new = data.draw(st.lists(st.tuples(TEXTS, st.sampled_from(["text", "dim", "badge-hung"])), max_size=5))
    a, b = (lines.merge(lines.pad(line, 400)) for line in (old, old[:1] + new))
    width = changed_width(a, b)
    assert 0 <= width <= 400
    assert cells(a)[width:] == cells(b)[width:]


def cells(line: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """One entry per cell: its character and its role; blanks that look alike are alike."""
    found: list[tuple[str, str]] = []
    for text, role in line:
        for char in text:
            look = (char, "" if char == " " and not lines.shows_blank(role) else role)
            found += [look] * cell_len(char)
    return found


def test_a_history_without_room_is_empty() -> None:
    """At some widths no cell is left for it, whatever the number of readings."""
    assert lines.spark([1.0, 2.0, 3.0], 0) == ""
    assert lines.spark([1.0], -1) == ""
