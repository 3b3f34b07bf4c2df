"""The phases that lie ahead, for the phase bar: data of each framework, never a promise where it is not known."""

from __future__ import annotations

from tui.diagnose.markers import load
from tui.diagnose.phases import PHASES
from tui.diagnose.spans import phases_ahead


def test_every_usual_phase_is_one_and_stands_in_the_usual_order() -> None:
    usual = load().usual
    assert {"sglang", "vllm"} <= usual.keys()
    for phases in usual.values():
        places = [list(PHASES).index(phase) for phase in phases]
        assert places == sorted(places)


def test_what_lies_ahead_shrinks_to_nothing() -> None:
    usual = load().usual["sglang"]
    assert phases_ahead(usual, "weight_load") == ("post_load", "kv_alloc", "graph_capture", "warmup", "serving")
    assert phases_ahead(usual, "draft_load") == ("kv_alloc", "graph_capture", "warmup", "serving")
    assert phases_ahead(usual, "serving") == ()
    assert phases_ahead(usual, "unknown") == ()
    assert phases_ahead((), "weight_load") == ()
