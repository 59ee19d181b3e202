"""The page: beside each plot what the paper found, what was found here, and whether that holds."""
import charts
import guide
from charts import escape
from claims import figure
from medium import title_of
from sets import SETS
from work import METRICS, size_text, size_words

DOCUMENT = "PING-AND-BLAST.md"
BADGES = {"yes": ("good", "holds here"), "no": ("bad", "does not hold here"),
          "same": ("even", "makes no difference here"), "open": ("even", "rounds disagree")}
SIGNS = {"yes": ("good", "yes"), "no": ("bad", "no"), "same": ("even", "same"),
         "open": ("even", "?")}

STYLE = """
.setup{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem;margin:1rem 0;
font-size:.9rem}.setup dt{color:var(--soft)}.setup dd{margin:0;overflow-wrap:anywhere}
.set{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:1rem;
margin:1.25rem 0}
.set header{display:flex;flex-wrap:wrap;gap:.1rem .75rem;align-items:baseline}
.set header a{font-size:.85rem;color:var(--soft);text-decoration:none}
.plots{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(300px,100%),1fr));
gap:1rem 1.25rem;margin:.75rem 0}figure{margin:0;min-width:0}
figcaption{font-size:.85rem;margin-bottom:.1rem}
.plots figure{max-width:30rem}
.legend{display:flex;flex-wrap:wrap;gap:.15rem 1.1rem;font-size:.85rem;margin:.25rem 0;padding:0;
list-style:none}.legend li{display:flex;align-items:center;gap:.4rem}
.swatch{width:28px;height:12px;flex:none}
.words{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(18rem,100%),1fr));
gap:.75rem 2rem;margin-top:.75rem}.words p{margin:0}
@media (min-width:60rem){.words{grid-template-columns:1fr 2fr}}
.claims{list-style:none;margin:0;padding:0}.claims li{margin:0 0 .6rem}
.badge{display:inline-block;font-size:.78rem;font-weight:600;border-radius:999px;
padding:.05rem .6rem;white-space:nowrap}
.good{color:var(--good);background:var(--good-bg)}.bad{color:var(--bad);background:var(--bad-bg)}
.even{color:var(--even);background:var(--even-bg)}
.advice{font-weight:600}.else{font-size:.85rem;color:var(--soft);display:block}
details{margin-top:.6rem;font-size:.9rem}summary{cursor:pointer;color:var(--link)}
summary::marker{color:var(--soft)}details h4{margin:.75rem 0 .1rem}
.answers td:first-child{white-space:normal;min-width:8.5rem}.answers td,.answers th{text-align:left}
.answers a{white-space:nowrap}
@media (max-width:480px){main{padding:1rem .75rem 3rem}.set{padding:.75rem;margin:1rem -.25rem}
.setup{grid-template-columns:1fr;gap:0}.setup dt{margin-top:.35rem}
.answers td,.answers th{padding:.25rem .3rem}.answers th{font-size:.78rem}}
"""


def make(result, have=()):
    body = "\n".join([head(result), answers(result), *papers(result, have), missing(result)])
    return charts.page("weft study", body, STYLE)


def head(result):
    info = result.head
    complete = "" if not result.failures else f", {len(result.failures)} points not measured"
    networks = "; ".join(f"{title_of(name)}: {entry.get('is') or entry['impossible']}"
                         for name, entry in result.networks.items())
    rows = (("Machine", f"{info['cpu']}, {info['cpus']} CPUs, {info['machine']}"),
            ("System", info["kernel"]), ("Program", info["weft"]),
            ("Measured", f"{result.began.replace('T', ' ').partition('+')[0]} to "
                         f"{result.ended.replace('T', ' ').partition('+')[0]} UTC; "
                         f"{len(result.rows)} measurements{complete}"),
            ("Settings", f"{info['kind']}: {info['rounds']} rounds, {info['seconds']} s each; "
                         "client and server on a CPU of their own" if len(info["may_use_cpus"]) > 1
             else f"{info['kind']}: {info['rounds']} rounds, {info['seconds']} s each; client and "
                  "server share one CPU"),
            ("Networks", networks), ("Other work", guide.busy_words(result)))
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in rows)
    return ("<h1>RDMA programming, measured here</h1>\n"
            "<p>What four papers measured, made again on this machine by <code>weft ping</code> "
            "and <code>weft blast</code>: choices in an RDMA program, iWARP in software beside "
            "TCP, and what the host pays. Every verdict is computed from the data on this page."
            f"</p>\n<dl class=\"setup\">{items}</dl>\n"
            "<p class=\"soft\">A point is the median over the rounds, its thin line the lowest to "
            "the highest round; works that are compared were measured in turn, and are compared "
            "within each round. Each measure is defined in "
            f"<code>docs/{DOCUMENT}</code>. A difference below 5 % counts as none, and one "
            "on which the rounds do not agree is left open. "
            "The numbers of figures and tables name topics; the papers' captions were not compared."
            "</p>")


def answers(result):
    """The short version: each piece of advice on each medium."""
    rows = []
    for one in SETS:
        for claim, verdicts in result.verdicts(one):
            cells = "".join(f"<td>{sign(verdicts.get(name))}</td>" for name in result.mediums)
            rows.append(f'<tr><td>{escape(claim.advice)} <a href="#{one.name}">{one.name}</a>'
                        f"</td>{cells}</tr>")
    if not rows:
        return "<p>Nothing was measured that a verdict could be drawn from.</p>"
    titles = "".join(f"<th>{escape(title_of(name).replace(', MTU', ''))}</th>"
                     for name in result.mediums)
    return ('<h2>Does it still hold?</h2><p class="soft">What the papers say, and what the data '
            "here say to it. “same”: it makes no difference; “?”: the rounds do not agree.</p>\n"
            '<div class="scroll"><table class="answers">'
            f"<thead><tr><th></th>{titles}</tr></thead>"
            f"<tbody>{''.join(rows)}</tbody></table></div>")


def sign(verdict):
    if verdict is None:
        return '<span class="soft">–</span>'
    css, word = SIGNS[verdict.verdict]
    return f'<span class="badge {css}">{word}</span>'


def papers(result, have):
    paper = None
    for one in SETS:
        shown = article(one, result, have)
        if not shown:
            continue
        if one.paper != paper:
            paper = one.paper
            yield f"<h2>{escape(paper)}</h2>"
        yield shown


def article(one, result, have):
    top = (f'<article class="set" id="{one.name}"><header><h3>{escape(one.title)}</h3>'
           f'<a href="#{one.name}">{one.name} · {escape(one.figure)}</a></header>')
    if one.needs and not result.has_subject(one):
        return "" if one.needs in have else (
            f"{top}<p class=\"soft\">This set appears with weft's {one.needs} library, which this "
            "build does not have.</p></article>")
    plots = list(figures(one, result))
    if not plots:
        return ""
    aside = f'<p class="soft">{escape(one.aside)}</p>' if one.aside else ""
    return "\n".join([
        top, f"<p>{escape(one.asks)}</p>", legend(one),
        f'<div class="plots">{"".join(plots)}</div>',
        aside, '<div class="words">',
        f"<div><h4>The paper found</h4><p>{escape(one.found)}</p></div>",
        f"<div><h4>Found here</h4>{verdicts_of(one, result)}</div></div>",
        numbers(one, result), "</article>"])


def styles_of(one):
    return charts.looks([series.label for series in one.series],
                        lambda label: label.startswith("TCP"))


def legend(one):
    styles = styles_of(one)
    items = "".join(f"<li>{charts.swatch(styles[series.label])}{escape(series.label)}</li>"
                    for series in one.series)
    return f'<ul class="legend">{items}</ul>'


def x_text(one):
    return size_text if one.x == "size" else str


def figures(one, result):
    styles = styles_of(one)
    for medium in result.mediums:
        for metric, lines in result.shown(one, medium):
            lines = [(series.label, points) for series, points in lines if points]
            if not lines:
                continue
            title, unit, _ = METRICS[metric]
            over = title_of(medium)
            chart = charts.line_chart(
                lines, styles, f"{one.title}, {over}: {title} in {unit}",
                "octets of a message" if one.x == "size" else "messages outstanding", unit,
                x_text(one), False if metric.endswith("_cpu") else None)
            yield (f'<figure data-set="{one.name}"><figcaption><b>{escape(over)}</b> · '
                   f"{escape(title)}{unit_words(title, unit)}</figcaption>{chart}</figure>")


def unit_words(title, unit):
    return "" if unit in title or unit == "/s" else f", {escape(unit)}"


def verdicts_of(one, result):
    items = []
    for claim, verdicts in result.verdicts(one):
        first = next(iter(verdicts))
        css, word = BADGES[verdicts[first].verdict]
        others = "".join(f'<span class="else">{escape(line)}</span>'
                         for line in guide.elsewhere(verdicts))
        items.append(f'<li><span class="advice">{escape(claim.advice[0].upper())}'
                     f'{escape(claim.advice[1:])}</span> <span class="badge {css}">{word}</span>'
                     f"<br>{escape(verdicts[first].sentence)}{others}</li>")
    if not items:
        return "<p>Not enough of it was measured for a verdict.</p>"
    return f'<ul class="claims">{"".join(items)}</ul>'


def numbers(one, result):
    words = size_words if one.x == "size" else str
    tables = []
    for medium in result.mediums:
        for metric, lines in result.shown(one, medium):
            xs = sorted({point[0] for _, points in lines for point in points})
            if not xs:
                continue
            title, unit, _ = METRICS[metric]
            head_ = "".join(f"<th>{escape(series.label)}</th>" for series, _ in lines)
            rows = "".join(
                f"<tr><td>{escape(words(x))}</td>" + "".join(
                    f"<td>{cell(points, x)}</td>" for _, points in lines) + "</tr>" for x in xs)
            tables.append(
                f"<h4>{escape(title_of(medium))}: {escape(title)}{unit_words(title, unit)}</h4>"
                f'<div class="scroll"><table><thead><tr><th></th>{head_}</tr></thead><tbody>{rows}'
                "</tbody></table></div>")
    return f"<details><summary>The numbers</summary>{''.join(tables)}</details>"


def cell(points, x):
    for at, middle, low, high in points:
        if at == x:
            return (f'{figure(middle)} <span class="soft">({figure(low)}–{figure(high)})'
                    "</span>")
    return '<span class="soft">–</span>'


def missing(result):
    """What could not be measured, and why."""
    lines = [f"{title_of(name)}: {entry['impossible']}"
             for name, entry in result.networks.items() if "impossible" in entry]
    lines += [f"{title_of(medium)}, {work}: {why}"
              for (medium, work), why in sorted(result.failures.items())]
    if not lines:
        return ""
    items = "".join(f"<li>{escape(one)}</li>" for one in lines)
    return f"<h2>What could not be measured</h2><ul>{items}</ul>"
