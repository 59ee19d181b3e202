"""One self-contained HTML page: every figure beside its limits as SVG, and the tables as text."""
import shared  # finds charts
import charts
from charts import escape, text

BAR, LINE, FIGURE = 300, 22, 140
LETTER = 7  # of a title, in pixels: a wide one, so that none is cut off
COLOURS = {True: "var(--s2)", False: "var(--s1)", None: "var(--base)"}


def bar_chart(rows, number, title):
    """A bar per row, drawn to its own scale: the 'at least' stands at the same place in each."""
    shown = [row for row in rows if "value" in row]
    height = 40 + LINE * len(shown)
    label = 20 + LETTER * max((len(row["title"]) for row in shown), default=0)
    width = label + BAR + FIGURE
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
             f'style="width:{width}px;height:{height}px">',
             text(0, 16, title, size=15)]
    for i, row in enumerate(shown):
        y = 32 + LINE * i
        unit = scale(row)
        parts.append(text(label - 10, y + 13, row["title"], "end"))
        parts.append(f'<rect x="{label}" y="{y + 2}" height="{LINE - 8}" '
                     f'width="{place(row["value"], unit):.1f}" '
                     f'style="fill:{COLOURS[row.get("met")]}"/>')
        if "low" in row and "high" in row:
            left, right = place(row["low"], unit), place(row["high"], unit)
            middle = y + 2 + (LINE - 8) / 2
            parts.append(f'<line x1="{label + left:.1f}" x2="{label + right:.1f}" y1="{middle}" '
                         f'y2="{middle}" style="stroke:var(--ink)"/>')
        for key, dash in (("least", ""), ("aim", ' stroke-dasharray="3 2"')):
            if row.get(key):
                x = label + place(row[key], unit)
                parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y}" y2="{y + LINE - 4}" '
                             f'style="stroke:var(--ink)"{dash}/>')
        parts.append(text(label + BAR + 60, y + 13, number(row["value"])))
    parts.append("</svg>")
    return "\n".join(parts)


def scale(row):
    """Pixels per unit of the row's figure."""
    reference = row.get("least") or row.get("aim") or abs(row["value"]) or 1.0
    return BAR * 0.6 / reference


def place(value, unit):
    return min(max(value * unit, 0.0), BAR + 40.0)


def works_chart(peers, number):
    """For each work its subjects, best first, to the raw row of the same rounds."""
    made = []
    for work in dict.fromkeys(peer["work"] for peer in peers):
        rows = [{"title": peer["subject"], "value": peer["to_raw"], "least": 1.0,
                 "met": True if peer["subject"].startswith("weft") else None}
                for peer in peers if peer["work"] == work and peer.get("to_raw")]
        if rows:
            made.append(bar_chart(rows, number, f"{work}: to raw TCP"))
    return made


def page(setup_lines, sections, drawn):
    """sections: (heading, lines of text)."""
    out = ["<h1>weft beside plain TCP</h1>",
           "<pre>" + escape("\n".join(setup_lines)) + "</pre>",
           "<p>Full line: at least. Dashed: aim. Thin line in a bar: lowest to highest round. "
           "Green: met; red: not met. Each bar is drawn to its own scale.</p>"]
    out += [f'<div class="scroll">{chart}</div>' for chart in drawn]
    for heading, lines in sections:
        out.append(f"<h2>{escape(heading)}</h2>")
        out.append("<pre>" + escape("\n".join(lines)) + "</pre>")
    return charts.page("weft", "\n".join(out))
