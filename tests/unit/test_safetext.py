"""What leaves ``clean`` is one printable, bounded line, whatever went in."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.safetext import LIMIT, clean, clean_tree


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]52;c;aGVsbG8=\x07after", "after"),
        ("\x1b]52;c;aGVsbG8=\x1b\\after", "after"),
        ("\x1b[2J\x1b[H\x1b[?1049lgone", "gone"),
        ('\x1bP$q"p\x1b\\x', "x"),
        ("\x9b31mx\x9d52;c;QQ==\x9cy", "xy"),
        ("a\tb", "a       b"),
        ("one\r\ntwo\nthree", "one two three"),
        ("nul\x00del\x7f", "nul\ufffddel\ufffd"),
        ("\u202eevil\u2066", "\ufffdevil\ufffd"),
        ("[/foo] [bold]b[/bold] [@click=app.quit]x[/]", "[/foo] [bold]b[/bold] [@click=app.quit]x[/]"),
        ("a\u00a0b\u2028c", "a b c"),
        ("\u0600\u06dd", "\ufffd\ufffd"),
        (b"bad \xff utf-8", "bad \ufffd utf-8"),
        ("caf\u00e9 \u4e2d\u6587", "caf\u00e9 \u4e2d\u6587"),
    ],
)
def test_known_attacks(raw: str | bytes, shown: str) -> None:
    assert clean(raw) == shown


def test_length_is_bounded_and_said() -> None:
    shown = clean("x" * 1_000_000)
    assert shown.startswith("x" * 100)
    assert shown.endswith(f"…[+{1_000_000 - LIMIT} chars]")
    assert len(shown) < LIMIT + 30


def test_a_megabyte_of_escapes_is_cheap() -> None:
    """The cut comes before the expression runs: a hostile line costs about what a long one costs."""
    start = time.process_time()
    for _ in range(20):
        clean("\x1b]" * 500_000)
    assert time.process_time() - start < 1.0


@given(st.one_of(st.text(), st.binary()))
def test_nothing_unprintable_survives(raw: str | bytes) -> None:
    shown = clean(raw)
    assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    assert "\x1b" not in shown


@given(st.text())
def test_clean_text_stays_as_it_is(raw: str) -> None:
    once = clean(raw)
    assert clean(once) == once


def test_trees_are_cleaned_through() -> None:
    dirty = {"\x1b[1mk": ["\x1b[2Jv", 1, None, {"n": "\u202e"}]}
    assert clean_tree(dirty) == {"k": ["v", 1, None, {"n": "\ufffd"}]}


def test_depth_is_bounded() -> None:
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    clean_tree(deep)
