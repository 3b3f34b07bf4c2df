"""The words, glyphs and roles for what the model names by ids. An id that is not known here is shown as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tui.model import Explanation, Verdict

VERDICT_GLYPHS = {
    "progressing": "»",
    "slow": "~",
    "waiting": "⋯",
    "suspect": "?",
    "hung": "✗",
    "crashed": "!",
    "ended": "▪",
    "ready": "✓",
    "unknown": "∙",
}
"""One narrow character each, none of ambiguous width or with an emoji form: colour alone never tells verdicts apart."""

ALARMS = frozenset({"suspect", "hung", "crashed"})

SIGABRT_SHORT = {
    "python_dump_then_death": "dump, dies",
    "death_no_dump": "dies mute",
    "native_dump_then_death": "native dump, dies",
    "single_stack_then_death": "one stack, dies",
    "ended": "ended",
    "ignored": "ignored",
    "handler": "own handler",
    "blocked": "blocked",
    "python_dump_and_life": "dump, lives",
    "dump_blocked": "stderr full",
    "uninterruptible": "in the kernel",
    "worker_death": "dies mute",
}

PROBES = {
    "stacks": ("stacks", "take the stacks of all ranks; C frames stop each for 1 to 2.5 s"),
    "abort": ("abort", "SIGABRT to all ranks for their last stacks; ends the launch"),
    "log": ("open.log", "read the log from its last good line on"),
    "dumps": ("dumps", "read the stacks that were taken"),
    "doctor": ("", "on the host: gputop-hang doctor HOST"),
    "snapshot": ("", "look at its processes: gputop-hang snapshot HOST"),
}

PANE_WORDS = {"gpus": "GPUs", "processes": "ranks"}
"""Panes by id that are called something else on the screen."""

STATES = {
    "R": "running",
    "S": "asleep",
    "D": "in the kernel",
    "T": "stopped",
    "t": "traced",
    "Z": "zombie",
    "X": "dead",
    "I": "idle",
}
"""Process states of ``/proc/PID/stat`` (proc(5))."""


def verdict_word(verdict_id: str) -> str:
    return verdict_id.upper()


def verdict_glyph(verdict_id: str) -> str:
    return VERDICT_GLYPHS.get(verdict_id, "∙")


def verdict_role(verdict_id: str) -> str:
    """The role of a verdict's colour; ids that are not known look like ``unknown``."""
    return f"verdict-{verdict_id if verdict_id in VERDICT_GLYPHS else 'unknown'}"


def spaced(name: str) -> str:
    """An id as words: ``weight_load`` → ``weight load``."""
    return name.replace("_", " ")


def explanation_of(verdict: Verdict) -> Explanation | None:
    """The hypothesis that the verdict's cause names."""
    return next((e for e in verdict.explanations if e.cause == verdict.cause), None)


def cause_words(verdict: Verdict) -> str:
    """The cause as a phrase: its explanation's title, else its id in words, else nothing. What made a start slow is no
    cause of being ready."""
    if verdict.id == "ready":
        return ""
    explanation = explanation_of(verdict)
    if explanation is not None and explanation.title:
        return explanation.title
    return spaced(verdict.cause) if verdict.cause else ""


def probe_words(probe: str) -> tuple[str, str]:
    """The id of the binding that runs a probe (empty where none does) and what it does."""
    return PROBES.get(probe, ("", spaced(probe)))


def sigabrt_words(outcome: str | None) -> str:
    from tui.stacks.sigabrt import SENTENCES  # for the question before an abort: the first picture does not wait for it

    return "not known" if outcome is None else SENTENCES.get(outcome, spaced(outcome))


def sigabrt_short(outcome: str | None) -> str:
    return "–" if outcome is None else SIGABRT_SHORT.get(outcome, spaced(outcome))
