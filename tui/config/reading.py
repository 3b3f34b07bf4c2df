"""From the text of the configuration file to settings; each fault is one sentence at its line and column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from tui import toml
from tui.collect.hosts import expand
from tui.config.settings import Notices, Settings
from tui.config.where import place_in_error
from tui.errors import UsageError
from tui.safetext import clean
from tui.thresholds import Thresholds

T = TypeVar("T")
Path_ = tuple[str, ...]

MOST_PATIENCE_S = 86400.0

TERMINAL_WAYS = ("osc9", "osc777")


class _Wrong(Exception):
    """``keys`` lead to the value, ``words`` say what is wrong with it and what is right."""

    def __init__(self, keys: Path_, words: str) -> None:
        super().__init__(words)
        self.keys = keys
        self.words = words


def read(path: Path, text: str) -> Settings:
    """The settings that ``text`` gives; ``path`` is for the sentences. Raises: UsageError at the first fault."""
    try:
        data = toml.loads(text)
    except (ValueError, RecursionError) as error:
        place = place_in_error(error) if isinstance(error, ValueError) else None
        what, at = (place[0], f", line {place[1]}, column {place[2]}") if place else (str(error), "")
        raise UsageError(
            f"{path}{at}: this is not TOML ({clean(what, 200)}); correct it there, "
            "or see how it is written with 'gputop-hang config --example'."
        ) from error
    try:
        return _settings(path, text, data)
    except _Wrong as wrong:
        raise Settings(path, text).wrong(wrong.keys, wrong.words) from wrong


def nearest(word: str, known: Iterable[str], then: str) -> str:
    """``did you mean 'theme'?`` where a known word is near, and the sentence ``then`` after it or in its place."""
    from difflib import get_close_matches

    near = get_close_matches(word, list(known), 1)
    return f"did you mean {near[0]!r}? {then}" if near else then[0].lower() + then[1:]


def _settings(path: Path, text: str, data: Mapping[str, Any]) -> Settings:
    readers: dict[str, Callable[[Path_, Any], Any]] = {
        "hosts": _words,
        "groups": lambda keys, value: _table(keys, value, _hosts),
        "logs": lambda keys, value: _table(keys, value, _logs),
        "theme": _string,
        "keys": lambda keys, value: _flat(keys, value),
        "thresholds": _thresholds,
        "notices": _notices,
    }
    _only((), data, readers)
    settings = Settings(path, text, **{key: readers[key]((key,), value) for key, value in data.items()})
    for word in settings.hosts:
        _check_host(("hosts",), word, settings.groups)
    for word in settings.logs:
        _check_host(("logs", word), word, settings.groups)
    return settings


def _only(keys: Path_, table: Mapping[str, Any], known: Iterable[str]) -> None:
    known = list(known)
    for key in table:
        if key not in known:
            where = f" in [{'.'.join(keys)}]" if keys else ""
            rest = nearest(key, known, f"Known are {', '.join(known)}.")
            raise _Wrong((*keys, key), f"there is no {key!r}{where}; {rest}")


def _table(keys: Path_, value: Any, read_one: Callable[[Path_, Any], T]) -> dict[str, T]:
    return {key: read_one((*keys, key), one) for key, one in _mapping(keys, value).items()}


def _mapping(keys: Path_, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Wrong(keys, f"{keys[-1]!r} is a table: write [{'.'.join(keys)}] and the names below it.")
    return cast("dict[str, Any]", value)


def _string(keys: Path_, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _Wrong(keys, f"{keys[-1]!r} is {value!r} but must be a text in quotes.")
    return value


def _words(keys: Path_, value: Any) -> tuple[str, ...]:
    words = cast("list[Any]", value) if isinstance(value, list) else [None]
    if not all(isinstance(word, str) and word.strip() for word in words):
        raise _Wrong(keys, f'{keys[-1]!r} is {value!r} but must be a list of texts, as ["one", "two"].')
    return tuple(cast("list[str]", words))


def _hosts(keys: Path_, value: Any) -> tuple[str, ...]:
    words = _words(keys, value)
    for word in words:
        if word.startswith("@"):
            raise _Wrong(keys, f"{word!r} cannot stand in a group: a group holds hosts, not groups.")
        _check_host(keys, word, {})
    return words


def _check_host(keys: Path_, word: str, groups: Mapping[str, Any]) -> None:
    if word.startswith("@"):
        if word[1:] not in groups:
            rest = nearest(word[1:], groups, f"Groups are written as [groups] and {word[1:]} = [...].")
            raise _Wrong(keys, f"{word!r} is no group; {rest}")
        return
    try:
        expand(word)
    except UsageError as error:
        raise _Wrong(keys, str(error)) from error


def _logs(keys: Path_, value: Any) -> tuple[str, ...]:
    return _words(keys, [value] if isinstance(value, str) else value)


def _flat(keys: Path_, value: Any) -> dict[str, str]:
    """Keys by id; an id has dots, and TOML makes tables of them where it is not in quotes."""
    found: dict[str, str] = {}
    for key, one in _mapping(keys, value).items():
        if isinstance(one, dict):
            found |= {f"{key}.{rest}": text for rest, text in _flat((*keys, key), one).items()}
        else:
            found[key] = _string((*keys, key), one)
    return found


def _notices(keys: Path_, value: Any) -> Notices:
    table = _mapping(keys, value)
    _only(keys, table, Notices.__dataclass_fields__)
    checked: dict[str, Any] = {}
    for key, one in table.items():
        if key == "on_verdict":
            checked[key] = _command((*keys, key), one)
        elif isinstance(one, bool) or (key == "terminal" and one in TERMINAL_WAYS):
            checked[key] = one
        else:
            ways = ', "osc9" or "osc777"' if key == "terminal" else ""
            raise _Wrong((*keys, key), f"{key!r} is {one!r} but must be true or false{ways}.")
    return Notices(**checked)


def _thresholds(keys: Path_, value: Any) -> Thresholds:
    table = _mapping(keys, value)
    _only(keys, table, Thresholds.__dataclass_fields__)
    for key, one in table.items():
        if isinstance(one, bool) or not isinstance(one, (int, float)) or not 0 <= one <= MOST_PATIENCE_S:
            most = f"{MOST_PATIENCE_S:.0f}"
            raise _Wrong((*keys, key), f"{key!r} is {one!r} but must be a number of seconds from 0 to {most}.")
    if "hung_s" in table and table["hung_s"] < table.get("suspect_s", 0):
        raise _Wrong((*keys, "hung_s"), "'hung_s' is below 'suspect_s', but suspicion comes first.")
    return Thresholds(**{key: float(one) for key, one in table.items()})


def _command(keys: Path_, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        raise _Wrong(keys, '\'on_verdict\' is a list, as ["program", "argument"]: no shell reads it.')
    return _words(keys, value)
