"""Plots as SVG and the page around them: self-contained, light or dark as the reader's system is,
and readable on a phone. No script, no network. Used by weft study and by bench/run.
"""
import html
import math

# Text is never smaller than this on a screen 400 pixels wide: a plot is drawn for the width that
# it has there, and only ever grows.
TEXT = 12
WIDTH, HEIGHT = 348, 236
LEFT, RIGHT, TOP, BOTTOM = 50, 10, 12, 40
MARKS = ("circle", "square", "triangle", "diamond", "cross")

STYLE = """
:root{color-scheme:light dark;--paper:#fcfcfb;--card:#ffffff;--ink:#1c1d1f;--soft:#5b6068;
--line:#d9dbdf;--grid:#e9eaed;--link:#1859a9;--s0:#1f6fd0;--s1:#cf4b0b;--s2:#16825a;--s3:#8a3fc4;
--s4:#b8236a;--base:#666b73;--good:#186a43;--good-bg:#e0f2e8;--bad:#a1311a;--bad-bg:#fbe6e0;
--even:#4c535d;--even-bg:#eceef1}
@media (prefers-color-scheme:dark){:root{--paper:#15171a;--card:#1c1f23;--ink:#e7e8ea;
--soft:#a5abb4;--line:#373c43;--grid:#2b2f35;--link:#85b8ff;--s0:#6cb0ff;--s1:#ff9a5c;--s2:#51c792;
--s3:#c69bff;--s4:#ff80b3;--base:#a9afb8;--good:#7fdcae;--good-bg:#173a2a;--bad:#ffab94;
--bad-bg:#46211a;--even:#c3c8d0;--even-bg:#2d3238}}
*{box-sizing:border-box}
h1,h2,h3,p,li,dd,figcaption{overflow-wrap:break-word}
body{margin:0;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",sans-serif}
main{max-width:73rem;margin:0 auto;padding:1.5rem 1rem 4rem}
h1{font-size:1.75rem;line-height:1.2;margin:.5rem 0}h2{font-size:1.3rem;line-height:1.3;
margin:3rem 0 .25rem;padding-top:1rem;border-top:1px solid var(--line)}
h3{font-size:1.05rem;line-height:1.35;margin:0}h4{font-size:.9rem;margin:0 0 .25rem;
color:var(--soft);font-weight:600}
p{margin:.4rem 0;max-width:46rem}a{color:var(--link)}.soft{color:var(--soft)}
code,pre{font:13px/1.45 ui-monospace,"Liberation Mono",monospace}
pre,.scroll{overflow-x:auto;max-width:100%}
svg{display:block;width:100%;height:auto}svg text{font-family:inherit;fill:var(--ink)}
svg .soft{fill:var(--soft)}
table{border-collapse:collapse;font-size:.85rem}th,td{padding:.25rem .6rem;text-align:right;
border-bottom:1px solid var(--grid);white-space:nowrap;font-variant-numeric:tabular-nums}
th:first-child,td:first-child{text-align:left}th{color:var(--soft);font-weight:600}
"""


def escape(text):
    return html.escape(str(text))


def page(title, body, style=""):
    return ('<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
            '<link rel="icon" href="data:,">\n'
            f"<title>{escape(title)}</title>\n<style>{STYLE}{style}</style></head>\n"
            f"<body><main>\n{body}\n</main></body></html>\n")


def text(x, y, words, anchor="start", size=TEXT, css=""):
    css = f' class="{css}"' if css else ""
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"{css}>'
            f"{escape(words)}</text>")


def line(x1, y1, x2, y2, style):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {style}/>'


def short(value):
    """A number of an axis: 0.05, 20, 1.5k, 3M."""
    for unit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:.3g}{suffix}"
    return f"{value:.3g}"


def linear_ticks(high):
    """From zero to at least `high`, in four to six steps of 1, 2 or 5."""
    if high <= 0:
        return [0, 1]
    step = 10 ** math.floor(math.log10(high / 4))
    while high / step > 6:
        step *= 2.5 if f"{step:.0e}"[0] == "2" else 2
    return [step * i for i in range(math.ceil(high / step - 1e-9) + 1)]


def log_ticks(low, high):
    """Decades around the values, with 2 and 5 where they are few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    factors = (1, 2, 5) if last - first <= 2 else (1,)
    step = 1 + (last - first) // 8
    ticks = [factor * 10.0 ** power for power in range(first, last + step, step)
             for factor in factors]
    below = max((tick for tick in ticks if tick <= low), default=ticks[0])
    above = min((tick for tick in ticks if tick >= high), default=ticks[-1])
    if above <= below:
        above = below * 10
    return [tick for tick in ticks if below <= tick <= above]


class Axis:
    """Places values between two ends, by their logarithm or as they are."""

    def __init__(self, ticks, start, end, log):
        self.ticks, self.start, self.end, self.log = ticks, start, end, log

    def place(self, value):
        if self.log:
            low, high, value = (math.log(one) for one in (self.ticks[0], self.ticks[-1], value))
        else:
            low, high = self.ticks[0], self.ticks[-1]
        share = (value - low) / (high - low) if high > low else 0.5
        return self.start + share * (self.end - self.start)


def y_axis(values, log=None):
    """log None: by the logarithm where a twentieth of the greatest would be lost."""
    positive = [value for value in values if value > 0]
    if log is None:
        log = bool(positive) and len(positive) == len(values) and \
            max(positive) > 20 * min(positive)
    start, end = HEIGHT - BOTTOM, TOP
    if log and positive:
        return Axis(log_ticks(min(positive), max(positive)), start, end, True)
    return Axis(linear_ticks(max(values)), start, end, False)


def mark(kind, x, y, colour):
    r = 3.4
    if kind == "square":
        shape = f'<rect x="{x - r:.1f}" y="{y - r:.1f}" width="{2 * r}" height="{2 * r}"'
    elif kind == "triangle":
        shape = (f'<path d="M{x:.1f} {y - r - 1:.1f}L{x + r + .6:.1f} {y + r:.1f}'
                 f'L{x - r - .6:.1f} {y + r:.1f}Z"')
    elif kind == "diamond":
        d = r + 1
        shape = f'<path d="M{x:.1f} {y - d:.1f}l{d} {d}l{-d} {d}l{-d} {-d}Z"'
    elif kind == "cross":
        return (f'<path d="M{x - r:.1f} {y - r:.1f}l{2 * r} {2 * r}m0 {-2 * r}l{-2 * r} {2 * r}" '
                f'style="stroke:{colour};stroke-width:2;fill:none"/>')
    else:
        shape = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}"'
    return f'{shape} style="fill:{colour};stroke:var(--card);stroke-width:1"/>'


def look(index, baseline):
    """(colour, mark, dashes) of a line: the baseline is grey and dashed in every plot."""
    if baseline:
        return "var(--base)", "square", "5 3"
    return f"var(--s{index % 5})", MARKS[index % len(MARKS)], ""


def looks(labels, is_baseline):
    found, index = {}, 0
    for label in labels:
        baseline = is_baseline(label)
        found[label] = look(index, baseline)
        index += 0 if baseline else 1
    return found


def swatch(style):
    """A line's sample, for a legend in the text."""
    colour, kind, dashes = style
    return ('<svg viewBox="0 0 28 12" width="28" height="12" aria-hidden="true" class="swatch">'
            f'<path d="M1 6H27" style="stroke:{colour};stroke-width:2;fill:none;'
            f'stroke-dasharray:{dashes or "none"}"/>{mark(kind, 14, 6, colour)}</svg>')


def line_chart(lines, styles, label, x_title, y_title, x_text, log=None):
    """lines: [(label, [(x, middle, low, high)])]; x by its logarithm. label: for who cannot see."""
    points = [point for _, line_ in lines for point in line_]
    xs = sorted({point[0] for point in points})
    y = y_axis([value for point in points for value in point[1:]], log)
    x = Axis(xs, LEFT + 8, WIDTH - RIGHT - 8, True)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
             f'aria-label="{escape(label)}">']
    for tick in y.ticks:
        at = y.place(tick)
        parts.append(line(LEFT, at, WIDTH - RIGHT, at, 'style="stroke:var(--grid)"'))
        parts.append(text(LEFT - 6, at + 4, short(tick), "end", css="soft"))
    parts.append(line(LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM,
                      'style="stroke:var(--soft)"'))
    for value in labelled(xs, x):
        parts.append(text(x.place(value), HEIGHT - BOTTOM + 16, x_text(value), "middle",
                          css="soft"))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, x_title, "middle", css="soft"))
    for name, points_of in lines:
        parts += one_line(name, points_of, styles[name], x, y, x_text, y_title)
    parts.append("</svg>")
    return "".join(parts)


def one_line(name, points, style, x, y, x_text, unit):
    colour, kind, dashes = style
    path = " ".join(f"{x.place(at):.1f},{clamped(y, middle):.1f}" for at, middle, _, _ in points)
    yield (f'<polyline points="{path}" style="fill:none;stroke:{colour};stroke-width:1.8;'
           f'stroke-dasharray:{dashes or "none"}"/>')
    for at, middle, low, high in points:
        place = x.place(at)
        yield line(place, clamped(y, low), place, clamped(y, high),
                   f'style="stroke:{colour};stroke-width:1;opacity:.55"')
        yield (f"<g><title>{escape(name)}, {escape(x_text(at))}: {middle:.4g} {escape(unit)} "
               f"({low:.4g} to {high:.4g})</title>{mark(kind, place, clamped(y, middle), colour)}"
               "</g>")


def clamped(axis, value):
    return axis.place(max(axis.ticks[0], min(value, axis.ticks[-1])))


def labelled(xs, axis, apart=38):
    """Those x whose labels do not touch."""
    shown, last = [], -math.inf
    for value in xs:
        if axis.place(value) - last >= apart:
            shown.append(value)
            last = axis.place(value)
    return shown
