"""Numbers as people read them. Unknown is an en dash; nothing here knows of colours or screens."""

from __future__ import annotations

from datetime import datetime

UNKNOWN = "–"


def duration(seconds: float | None) -> str:
    """``58s``, ``1m 04s``, ``2h 03m``, ``3d 04h``: two units at most, whole ones, never rounded up."""
    if seconds is None:
        return UNKNOWN
    whole = max(0, int(seconds))
    minutes, s = divmod(whole, 60)
    hours, m = divmod(minutes, 60)
    days, h = divmod(hours, 24)
    if days:
        return f"{days}d {h:02d}h"
    if hours:
        return f"{hours}h {m:02d}m"
    return f"{minutes}m {s:02d}s" if minutes else f"{s}s"


def about(seconds: float | None) -> str:
    """A duration in steps so coarse that a row of them stands still: ``20s``, ``4m``, ``2h 03m``; blank if unknown."""
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{int(seconds) // 10 * 10}s"
    return f"{int(seconds) // 60}m" if seconds < 3600 else duration(seconds)


def clock(wall: float | None) -> str:
    """The local time of day of a Unix time, ``14:02:31``."""
    return UNKNOWN if wall is None else datetime.fromtimestamp(wall).strftime("%H:%M:%S")


def number(value: float | None, digits: int = 0) -> str:
    """A plain number with a fixed count of decimals."""
    return UNKNOWN if value is None else f"{value:.{digits}f}"


def count(value: float | None) -> str:
    """A counter, without decimals where it has none, with thousands set apart."""
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0f}%"


def watts(used: float | None, limit: float | None = None) -> str:
    """``117/700 W``; the limit is left out where it is unknown."""
    if used is None:
        return UNKNOWN
    return f"{used:.0f} W" if limit is None else f"{used:.0f}/{limit:.0f} W"


def gib(mib: float | None) -> str:
    """MiB as GiB with three significant digits: ``0.55``, ``76.0``, ``140``."""
    if mib is None:
        return UNKNOWN
    value = mib / 1024
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 or value == 0 else f"{value:.2f}"


def memory(used_mib: float | None, total_mib: float | None) -> str:
    """``76.0/141 GiB``; the total is left out where it is unknown or zero, as some drivers report it."""
    if used_mib is None:
        return UNKNOWN
    return f"{gib(used_mib)}/{gib(total_mib)} GiB" if total_mib else f"{gib(used_mib)} GiB"


def rate(mib_s: float | None) -> str:
    """MiB/s in the unit that keeps it short: ``0``, ``0.4M``, ``12M``, ``3.1G``."""
    if mib_s is None:
        return UNKNOWN
    if mib_s < 0.05:
        return "0"
    if mib_s < 10:
        return f"{mib_s:.1f}M"
    if mib_s < 1000:
        return f"{mib_s:.0f}M"
    return f"{mib_s / 1024:.1f}G"


def size(n_bytes: float | None) -> str:
    """Bytes in binary units: ``812 B``, ``9.8 KiB``, ``1.2 GiB``."""
    if n_bytes is None:
        return UNKNOWN
    value = float(n_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def ranks(numbers: list[int] | tuple[int, ...]) -> str:
    """Rank numbers with runs drawn together: ``0–4, 6, 7``."""
    runs: list[list[int]] = []
    for n in sorted(set(numbers)):
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    parts: list[str] = []
    for first, last in runs:
        if last - first >= 2:
            parts.append(f"{first}–{last}")
        else:
            parts.extend(str(n) for n in range(first, last + 1))
    return ", ".join(parts)


def rank_words(numbers: list[int] | tuple[int, ...]) -> str:
    """``rank 5`` or ``ranks 0–4, 6, 7``."""
    return ("rank " if len(set(numbers)) == 1 else "ranks ") + ranks(numbers)


def plural(n: int, one: str, many: str = "") -> str:
    """``1 host``, ``4 hosts``, ``1,200 lines``."""
    return f"{count(n)} {one if n == 1 else many or one + 's'}"
