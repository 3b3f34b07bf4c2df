"""The command line: words to plans, plans to the parts that carry them out.

Imports are kept inside the commands: the first picture must not wait for what it does not need, and a command without
a screen must run where Textual cannot.
"""

from __future__ import annotations

import argparse
import errno
import gc
import io
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tui import __version__
from tui.errors import Exit, GputopError, UsageError

if TYPE_CHECKING:
    from tui.config.settings import Settings
    from tui.session.plan import Plan
    from tui.ui.session_like import SessionLike

_EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "watch": (
        ("", "watch this machine"),
        ("gpu01 gpu02", "watch two hosts over ssh, nothing installed there"),
        ("'node[01-16]'", "ranges; ssh://host:port for another port"),
        ("@train", "a group of the configuration"),
        ("--log 'runs/*.log'", "follow the newest of these logs too"),
        ("watch demo", "the long form, for a host named like a command"),
    ),
    "demo": (
        ("demo", "a real launch here that goes silent: see how it is found out"),
        ("demo --healthy", "its twin that is only slow, and becomes ready"),
    ),
    "replay": (
        ("replay scenario/", "a recorded start-up, in the monitor"),
        ("replay scenario/ --speed 20", "twenty times as fast"),
        ("replay scenario/ --json --speed max", "one line per step and launch"),
    ),
    "score": (("score scenarios/*", "compare the verdicts on recorded start-ups with what was true"),),
    "snapshot": (
        ("snapshot gpu01 --json", "look twice, print what is seen and thought"),
        ("snapshot gpu01 --markdown", "the same for a ticket"),
    ),
    "dump": (
        ("dump gpu01:4711 …", "stacks of these processes, merged, without harm"),
        ("dump 4711 4712 --json", "of this machine, for a script"),
        ("dump --from stacks/*", "merge what was taken before"),
    ),
    "doctor": (
        ("doctor gpu01", "what will and will not work there, what would spoil a launch"),
        ("doctor", "on this machine"),
        ("doctor 'node[01-16]'", "all at once, within 10 s; one that is dead has its reason"),
    ),
    "config": (
        ("config", "which file is read, and what is in force"),
        ("config --example", "a commented example, to be redirected there"),
    ),
}
"""By command: words after ``gputop-hang``, and what they do. The first of each stands in the help of all."""

COMMANDS = tuple(_EXAMPLES)


def _examples(*commands: str) -> str:
    """The examples of these commands; of several, each one's first, but all of ``watch``'s few words."""
    rows = [row for name in commands for row in _EXAMPLES[name][: None if len(commands) == 1 else 1]]
    if len(commands) > 1:
        rows[1:1] = _EXAMPLES["watch"][1:4]
    width = max(len(words) for words, _ in rows)
    return "examples:\n" + "".join(f"  gputop-hang {words:<{width}}  {does}\n" for words, does in rows) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns an exit code of :class:`tui.errors.Exit`."""
    words = list(sys.argv[1:] if argv is None else argv)
    _mend_surroundings()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal of another encoding gets a mark, not a traceback
    try:
        code = int(_dispatch(words))
        sys.stdout.flush()
        return code
    except GputopError as error:
        print(f"gputop-hang: {error}", file=sys.stderr)
        return int(error.exit_code)
    except KeyboardInterrupt:
        return int(Exit.INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output has gone (head, less): nobody is left to tell. The descriptor is replaced so that
        # the interpreter's own flush at exit does not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(Exit.READY)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EIO, errno.EFBIG):
            raise
        print(f"gputop-hang: the output cannot be written: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(Exit.BUG)


def _mend_surroundings() -> None:
    """What a careless caller leaves behind is no reason to fail: closed descriptors, and sizes that no terminal has."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: PTH123, SIM115
    for name in ("COLUMNS", "LINES"):
        size = os.environ.get(name, "1")
        if not (size.isascii() and size.isdecimal() and len(size) < 5 and int(size)):
            del os.environ[name]  # rich and Textual take it at its word


def _dispatch(words: list[str]) -> Exit:
    if words[:1] == ["help"]:
        words = [*words[1:2], "--help"]
    if not words or (words[0] not in COMMANDS and words[0] not in ("-h", "--help", "--version")):
        _no_command_meant(words[0] if words else "")
        words = ["watch", *words]
    options = _parser().parse_args(words)
    return _RUN[options.command](options)


def _no_command_meant(word: str) -> None:
    """Raises: UsageError on a host's name that is more likely a command with a slip in it."""
    if not word.isalpha():
        return
    from difflib import get_close_matches  # the first picture of most calls need not wait for it

    if meant := get_close_matches(word, COMMANDS, 1, 0.75):
        raise UsageError(f"There is no command {word!r}; is {meant[0]!r} meant? A host: gputop-hang watch {word}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gputop-hang",
        usage=argparse.SUPPRESS,
        description=_examples(*COMMANDS) + "Watches launches and says whether a silent one is slow or hung, and why.\n"
        "'gputop-hang COMMAND --help' tells the options of a command, 'watch --help' those of the monitor.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"gputop-hang {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, prog="gputop-hang")

    def command(name: str, summary: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name,
            help=summary,
            usage=argparse.SUPPRESS,
            description=_examples(name) + summary[0].upper() + summary[1:] + ".",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    watch = command("watch", "the live monitor; 'gputop-hang HOST …' is short for it")
    _hosts(watch)
    _sudo_option(watch)
    _selectors(watch)
    _interval_option(watch)
    _theme(watch)

    demo = command("demo", "a real launch on this machine that goes silent, in the monitor")
    demo.add_argument("--healthy", action="store_true", help="the twin that is only slow, and becomes ready")
    _theme(demo)

    replay = command("replay", "a recorded start-up: a scenario folder, in the monitor or as JSON lines")
    replay.add_argument("path", type=Path, metavar="PATH")
    replay.add_argument("--speed", type=_speed, default=1.0, metavar="N|max", help="times real time (default 1)")
    replay.add_argument("--json", action="store_true", help="one line per step and launch, no screen")
    _theme(replay)

    score = command("score", "replay scenarios and compare with what was true")
    score.add_argument("paths", type=Path, nargs="+", metavar="DIR")
    score.add_argument("--json", action="store_true")

    snapshot = command("snapshot", "look twice, a few seconds apart, and print what is seen and thought")
    _hosts(snapshot)
    _sudo_option(snapshot)
    _selectors(snapshot)
    form = snapshot.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true")
    form.add_argument("--markdown", action="store_true")

    dump = command("dump", "stacks of processes, merged; without harm unless --abort")
    dump.add_argument("targets", nargs="*", metavar="[HOST:]PID")
    dump.add_argument("--json", action="store_true")
    dump.add_argument("--abort", action="count", default=0, help="SIGABRT: the processes die of it")
    _sudo_option(dump)
    dump.add_argument("--from", dest="from_paths", type=Path, nargs="+", default=[], metavar="PATH")

    doctor = command("doctor", "what will and will not work on a host, and what would spoil a launch before it starts")
    _hosts(doctor)

    config = command("config", "the configuration: which file is read, and what is in force")
    config.add_argument("--example", action="store_true", help="print a commented example instead")
    return parser


def _hosts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "hosts", nargs="*", metavar="HOST", help="as ssh takes it, or @GROUP; without any, this machine"
    )


def _sudo_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sudo", action="store_true", help="look as root there (sudo -n, which asks for no password)")


def _selectors(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--log", action="append", default=[], metavar="[HOST:]PATH", help="a log to follow (globs)")
    parser.add_argument("--pid", action="append", default=[], metavar="[HOST:]PID", help="a process of the launch")
    parser.add_argument("--port", action="append", default=[], type=_port, help="the port it will serve on")


def _port(word: str) -> int:
    if not word.isdecimal() or not 1 <= int(word) <= 65535:
        raise argparse.ArgumentTypeError(f"'{word}' is no port: 1 to 65535")
    return int(word)


def _interval_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--interval", type=_interval, metavar="S", help="seconds between looks (1; 2 at many hosts)")


def _theme(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--theme", metavar="NAME", help="colours; 't' steps through them")


def _speed(word: str) -> float:
    if word == "max":
        return float("inf")
    try:
        speed = float(word)
    except ValueError:
        speed = 0.0
    if not speed > 0:
        raise argparse.ArgumentTypeError(f"'{word}' is no speed: a number above 0, or max")
    return speed


def _interval(word: str) -> float:
    try:
        seconds = float(word)
    except ValueError:
        seconds = 0.0
    if not 0.2 <= seconds <= 10:
        raise argparse.ArgumentTypeError(f"'{word}' is no interval: 0.2 to 10 seconds")
    return seconds


def _need_screen() -> None:
    """Raises: UsageError where no full-screen program can run."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("the monitor needs a terminal; without one use 'gputop-hang snapshot' or 'replay --json'")
    if os.environ.get("TERM", "") in ("", "dumb"):
        raise UsageError("the monitor needs a terminal that can move the cursor; TERM is unset or 'dumb' here")
    for name in ("COLUMNS", "LINES"):
        os.environ.pop(name, None)  # a parent with readline exports its own, and Textual would believe it for ever


def _settings() -> Settings:
    """The configuration file. Raises: UsageError where it cannot be used."""
    from tui.config import settings

    return settings.load()


def _plan(options: argparse.Namespace, settings: Settings) -> Plan:
    """What shall be watched: hosts and logs of the configuration where the command line names none, groups written out.

    Raises: UsageError.
    """
    from tui.session.plan import plan_hosts

    options.hosts = settings.host_words(options.hosts)
    if settings.logs and not getattr(options, "log", None):
        options.log = settings.log_words(options.hosts)
    return replace(plan_hosts(options), least=settings.thresholds)


def _watch(options: argparse.Namespace) -> Exit:
    _need_screen()
    settings = _settings()
    plan = _plan(options, settings)
    plan.start_local()  # the agent here starts while Textual is still being imported
    if options.hosts or options.pid or options.log or options.port:
        return _show(lambda: _live(plan), options.theme, settings)
    with ExitStack() as after:
        return _show(lambda: _live(plan), options.theme, settings, open_demo=lambda: _live(_demo_plan(after)))


def _demo_plan(after: ExitStack, *, healthy: bool = False) -> Plan:
    """Start the demo, which ends with ``after``, and watch it. Raises: UsageError."""
    from tui.demo.launch import DemoLaunch
    from tui.session.plan import plan_demo

    launch = DemoLaunch(healthy=healthy)
    launch.start()
    after.callback(launch.stop)
    plan = plan_demo(launch)
    plan.start_local()
    return plan


def _demo(options: argparse.Namespace) -> Exit:
    _need_screen()
    settings = _settings()
    with ExitStack() as after:
        plan = _demo_plan(after, healthy=options.healthy)
        return _show(lambda: _live(plan), options.theme, settings)


def _live(plan: Plan) -> SessionLike:
    from tui.session.live import LiveSession

    return LiveSession(plan)


def _replay(options: argparse.Namespace) -> Exit:
    if options.json:
        from tui.headless import replay

        return replay.run(options.path, json=True, speed=options.speed)
    _need_screen()
    from tui.session.playback import PlaybackSession

    settings = _settings()
    session = PlaybackSession(options.path, speed=options.speed)
    past = replace(settings.notices, bell=False, terminal=False, desktop=False, on_verdict=())
    return _show(lambda: session, options.theme, replace(settings, notices=past))


def _show(
    open_session: Callable[[], SessionLike],
    theme: str | None,
    settings: Settings,
    open_demo: Callable[[], SessionLike] | None = None,
) -> Exit:
    gc.disable()  # nothing that is imported now becomes garbage; the application collects again once it stands
    from tui.config.choices import Kept
    from tui.ui.app import GputopApp
    from tui.ui.first_run import is_first_run

    app = GputopApp(open_session, theme=theme, settings=settings, open_demo=open_demo, hint=is_first_run(), kept=Kept())
    return Exit(app.run() or Exit.READY)


def _score(options: argparse.Namespace) -> Exit:
    from tui.headless import score

    return score.run(options.paths, json=options.json)


def _snapshot(options: argparse.Namespace) -> Exit:
    from tui.headless import snapshot

    form = "json" if options.json else "markdown" if options.markdown else "text"
    return snapshot.run(_plan(options, _settings()), form=form)


def _dump(options: argparse.Namespace) -> Exit:
    from tui.headless import dump

    return dump.main(options)


def _doctor(options: argparse.Namespace) -> Exit:
    from tui.headless import doctor

    return doctor.run(_plan(options, _settings()))


def _config(options: argparse.Namespace) -> Exit:
    from tui.headless import config

    return config.run(example=options.example)


_RUN = {
    "watch": _watch,
    "demo": _demo,
    "replay": _replay,
    "score": _score,
    "snapshot": _snapshot,
    "dump": _dump,
    "doctor": _doctor,
    "config": _config,
}
