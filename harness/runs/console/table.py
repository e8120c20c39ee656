"""The console as a table on a terminal.

Decides where everything stands. Must not know where the figures come from. Invariants: every line is as wide as the
terminal allows and no wider, and a figure stands in the same columns whatever it is, so nothing jumps; the table is no
higher than the terminal.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from harness.runs.console.picture import INVALID_SO_FAR, PartitionLine, Phase, Picture
from harness.runs.console.plain import jobs_text

_WIDTH_MOST = 119
_BAR = 24
_FIXED_LINES = 11
"""All but those of partitions, and that of the verdict so far."""
_RAMP, _ASCII_RAMP = " ▁▂▃▄▅▆▇█", " .:-=+*%#"


def render(title: str, picture: Picture, *, width: int = 80, height: int = 24, ascii_only: bool = False) -> Text:
    """The whole table for a terminal of so many columns and lines. ascii_only: it shows nothing else."""
    wide = max(20, min(width - 1, _WIDTH_MOST))
    lines = [
        _ends(Text(title, style="bold"), Text(f"{_clock(picture.elapsed_s)} in all"), wide),
        _phase(picture, wide, ascii_only=ascii_only),
        Text(jobs_text(picture) or picture.doing, style="dim"),
        *_operations(picture),
        _labelled("ok/s", sparkline(picture.ok_by_second, min(60, wide - 11), ascii_only=ascii_only), "green"),
        *_faults(picture),
        *_so_far(picture),
        *_partitions(picture, max(1, height - 1 - _FIXED_LINES - bool(picture.so_far))),
        _last_error(picture),
    ]
    for line in lines:
        line.truncate(wide, overflow="crop" if ascii_only else "ellipsis", pad=True)
    return Text("\n").join(lines)


def sparkline(values: Sequence[int], width: int, *, ascii_only: bool = False) -> str:
    """The last `width` values as one character each, the newest at the right; the highest of them fills its line."""
    ramp = _ASCII_RAMP if ascii_only else _RAMP
    shown = list(values[-width:])
    top = max([*shown, 1])
    # Whatever is not nothing shows as something.
    steps = [0 if value <= 0 else max(1, round(value / top * (len(ramp) - 1))) for value in shown]
    return "".join(ramp[step] for step in steps).rjust(width)


def _ends(left: Text, right: Text, wide: int) -> Text:
    """One at the left edge, one at the right; the right one whole."""
    left.truncate(max(0, wide - len(right) - 1), pad=True)
    return Text.assemble(left, " ", right)


def _phase(picture: Picture, wide: int, *, ascii_only: bool) -> Text:
    phase = picture.phase
    share = _share(phase, picture.jobs)
    full = round(share * _BAR)
    done, left = ("#", ".") if ascii_only else ("█", "░")
    limit = "" if phase.limit_s is None else f" of {_clock(phase.limit_s)}"
    head = Text.assemble((f"{phase.place:<15}", "bold"), (done * full, "cyan"), left * (_BAR - full), "  ", phase.name)
    return _ends(head, Text(f"{_clock(phase.elapsed_s)}{limit}"), wide)


def _share(phase: Phase, jobs: tuple[int, int] | None) -> float:
    """How much of the run is done, from 0 to 1: each phase counts the same. Of the phase alone where nobody knows how
    many there are.
    """
    within = 0.0
    if jobs is not None and jobs[1] > 0:
        within = jobs[0] / jobs[1]
    elif phase.limit_s:
        within = phase.elapsed_s / phase.limit_s
    within = min(1.0, within)
    return within if phase.of is None else min(1.0, (phase.number - 1 + within) / phase.of)


def _operations(picture: Picture) -> list[Text]:
    beside = {
        "ok": f"sends p50 {_ms(picture.p50_ms)}   p99 {_ms(picture.p99_ms)}",
    }
    styles = {"ok": "green", "fail": "yellow", "info": "magenta"}
    return [
        _labelled(
            key,
            f"{picture.rates.get(key, 0.0):>8,.0f}/s {picture.totals.get(key, 0):>13,}   {beside.get(key, '')}",
            style,
        )
        for key, style in styles.items()
    ]


def _labelled(label: str, text: str, style: str = "") -> Text:
    return Text.assemble((f"{label:<11}", style or "bold"), text)


def _ms(value: float | None) -> str:
    return f"{'-':>8} ms" if value is None else f"{value:>8,.1f} ms"


def _faults(picture: Picture) -> list[Text]:
    counts = f"{picture.faults_done:>3} done {len(picture.faults):>2} active"
    active = "; ".join(f"{fault.text} {_clock(fault.age_s)}" for fault in picture.faults)
    return [
        _labelled("faults", f"{counts}  {picture.coming}"),
        Text.assemble(" " * 11, (active, "red")),
    ]


def _so_far(picture: Picture) -> list[Text]:
    """No line where nobody judges the run while it goes on."""
    if not picture.so_far:
        return []
    return [_labelled("verdict", picture.so_far, "bold red" if picture.so_far.startswith(INVALID_SO_FAR) else "")]


def _partitions(picture: Picture, room: int) -> list[Text]:
    """A heading, and room lines at most: the worst, and how many more there are."""
    count = len(picture.partitions)
    shown = picture.partitions if count <= room else picture.partitions[: room - 1]
    lines = [Text(f"{'partition':<10} {'leader':<8} {'epoch':>6}  {'ISR':<14} {'watermark':>13} {'lag':>11}", "bold")]
    lines += [_partition(index, p) for index, p in shown]
    if count > len(shown):
        lines.append(Text(f"and {count - len(shown)} more, none worse", style="dim"))
    return lines


def _partition(index: int, p: PartitionLine) -> Text:
    isr = "?" if p.isr is None else ",".join(str(broker) for broker in p.isr)
    epoch = "?" if p.epoch < 0 else str(p.epoch)
    hw = "?" if p.hw < 0 else f"{p.hw:,}"
    lag = "?" if p.read < 0 else f"{p.lag:,}"
    text = f"{index:<10} {_cut(p.leader or '-', 8)} {epoch:>6}  {_cut(isr, 14)} {hw:>13} {lag:>11}"
    return Text(text, style="red" if p.isr is not None and p.leader is None else "")


def _cut(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else text[: width - 1] + "+"


def _last_error(picture: Picture) -> Text:
    if not picture.last_error:
        return _labelled("last error", "none")
    age = f"{_clock(picture.last_error_age_s):>7} ago  "
    # What a client calls an error may have more than one line.
    return _labelled("last error", age + " ".join(picture.last_error.split()))


def _clock(seconds: float) -> str:
    """`0:07`, `12:34`, `1:02:03`."""
    whole = int(seconds)
    minutes = f"{whole // 60 % 60}:{whole % 60:02d}"
    return minutes if whole < 3600 else f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
