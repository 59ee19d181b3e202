#!/usr/bin/env python3
"""The study's page in a real browser: nothing on the console, nothing asked of the network, every
figure there, no text too small, nothing beside a narrow screen. Status 77: no browser runs here.
"""
import random
import sys
import tempfile
from pathlib import Path

import made_up
import page
from browser import Absent, Browser
from sets import SETS

TEXT_MIN, CONTRAST_MIN = 11, 4.5
LONG = "a name of a processor that is longer than any that was ever sold, " * 3

# Every piece of text that is shown: its size on the screen, and its contrast.
LOOK = """
(() => {
  const channel = v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; };
  const parse = c => (c.match(/[\\d.]+/g) || []).map(Number);
  const light = c => .2126 * channel(c[0]) + .7152 * channel(c[1]) + .0722 * channel(c[2]);
  const behind = e => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const e = node.parentElement;
    if (!node.data.trim() || !e.getClientRects().length || e.closest("title,style")) continue;
    const style = getComputedStyle(e), matrix = e.getScreenCTM ? e.getScreenCTM() : null;
    const a = light(parse(e instanceof SVGElement ? style.fill : style.color));
    const b = light(behind(e));
    found.push([node.data.trim().slice(0, 40), parseFloat(style.fontSize) * (matrix ? matrix.a : 1),
                (Math.max(a, b) + .05) / (Math.min(a, b) + .05)]);
  }
  return found;
})()
"""
OVERFLOW = """
[document.documentElement.scrollWidth, ...[...document.querySelectorAll("body *")]
  .filter(e => !e.closest(".scroll") && e.getBoundingClientRect().right > innerWidth + 1)
  .map(e => e.tagName + "." + e.className)]
"""
FIGURES = """
[...document.querySelectorAll("figure[data-set]")].map(f => {
  const box = f.querySelector("svg").getBoundingClientRect();
  return [f.dataset.set, box.width, box.height, f.querySelectorAll("polyline").length];
})
"""


def expected_figures(result):
    return sorted(one.name for one in SETS if result.has_subject(one) for medium in result.mediums
                  if one.xs(medium, result.kind.quick) for _ in one.metrics())


def look(browser, url, width, dark, figures):
    """What is wrong with the page so."""
    browser.open(url, width, dark)
    browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    yield from (f"the console says {complaint}" for complaint in browser.complaints())
    yield from (f"it asks for {other}" for other in browser.requests()
                if other != url and not other.startswith("data:"))
    found = browser.evaluate(FIGURES)
    if sorted(name for name, *_ in found) != figures:
        yield f"figures {sorted(name for name, *_ in found)}, not {figures}"
    for name, wide, high, lines in found:
        if wide < 250 or high < 150 or lines < 2:
            yield f"the figure of {name} is {wide} by {high} with {lines} lines"
    texts = browser.evaluate(LOOK)
    if len(texts) < 1000:
        yield f"only {len(texts)} texts"
    for text, size, contrast in texts:
        if size < TEXT_MIN:
            yield f"'{text}' is {size:.1f} px high"
        if contrast < CONTRAST_MIN:
            yield f"'{text}' has a contrast of {contrast:.1f}"
    scroll, *wide = browser.evaluate(OVERFLOW)
    if scroll > width or wide:
        yield f"it is {scroll} px wide; beside the screen are {wide[:5]}"


def main():
    choose = random.Random(1)
    result = made_up.result(lambda step: choose.random() * 10 ** choose.randint(-1, 3) + 0.01)
    result.head = {**result.head, "cpu": LONG + "x" * 200}
    result.failures = {("loopback", "ping " * 30): "y" * 300}
    try:
        browser = Browser()
    except Absent as reason:
        print(f"skipped: {reason}")
        return 77
    wrong = []
    with browser, tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.html"
        path.write_text(page.make(result), encoding="utf-8")
        figures = expected_figures(result)
        for width in (400, 1280):
            for dark in (False, True):
                where = f"{width} px, {'dark' if dark else 'light'}: "
                wrong += [where + text for text in look(browser, path.as_uri(), width, dark,
                                                        figures)]
        # That it would see what is wrong.
        path.write_text(page.make(result).replace(
            "<main>", '<main><p style="font-size:9px;min-width:2000px;color:#888">small</p>'
            '<img src="http://127.0.0.1:9/none"><script>nothing()</script>'), encoding="utf-8")
        seen = " ".join(look(browser, path.as_uri(), 400, False, figures[1:]))
        wrong += [f"it did not see that {text}" for text in
                  ("9.0 px", "console says", "contrast of", "it is 2", "asks for", "not [")
                  if text not in seen]
    print("\n".join(wrong[:40]) or f"{len(figures)} figures, at two widths, light and dark")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
