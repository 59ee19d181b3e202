"""What a set says about a choice: a comparison of two works, judged from what was measured.

A claim is the paper's advice. Its verdict on a medium is "yes" (it holds here), "no" (the contrary
holds), "same" (the choice makes no difference that could be told from noise), or None (not
measured). The sentence that is printed is the verdict's: none is written in advance of the data.
"""
import math
import statistics
from dataclasses import dataclass, field
from typing import Callable

from work import LESS_IS_BETTER, value_of

# Below this a difference of medians is taken for none.
MARGIN = 0.05


@dataclass
class Verdict:
    verdict: str  # yes, no, same
    gain: float   # how many times better the advised choice is; of a share: the share itself
    low: float
    high: float
    sentence: str
    figures: dict = field(default_factory=dict)


class Data:
    """What was measured: rows by (medium, work's name, round)."""

    def __init__(self, rows):
        self.rounds = {}
        for (medium, work, number), row in rows.items():
            self.rounds.setdefault((medium, work), {})[number] = row

    def values(self, medium, work, metric):
        """{round: value}"""
        found = {number: value_of(metric, row)
                 for number, row in self.rounds.get((medium, work.name()), {}).items()}
        return {number: value for number, value in found.items() if value is not None}

    def summary(self, medium, work, metric):
        """(median, lowest, highest) over the rounds, or None."""
        values = list(self.values(medium, work, metric).values())
        return (statistics.median(values), min(values), max(values)) if values else None

    def ratio(self, medium, one, other, metric):
        """The median of the ratios within a round: the rounds' weather cancels."""
        over, under = (self.values(medium, work, metric) for work in (one, other))
        ratios = [over[number] / under[number] for number in over
                  if under.get(number) and over[number]]
        return statistics.median(ratios) if ratios else None

    def media(self):
        return {medium for medium, _ in self.rounds}


def judge_gain(gain, margin=MARGIN):
    return "yes" if gain > 1 + margin else "no" if gain < 1 - margin else "same"


def times(gain):
    """2.3, 14, 1.08"""
    return f"{gain:.0f}" if gain >= 9.95 else f"{gain:.1f}" if gain >= 1.95 else f"{gain:.2f}"


def spread(low, high):
    return times(low) if times(low) == times(high) else f"{times(low)} to {times(high)}"


@dataclass(frozen=True)
class Compare:
    """`better` should be better than `than` by `metric`, at these sizes (or other x) on average.

    yes, same, no: sentences with {gain}, {loss} (its inverse), {range}, {better}, {than}, {at}.
    """
    name: str
    advice: str
    metric: str
    better: object
    than: object
    yes: str
    same: str
    no: str
    sizes: tuple = ()
    margin: float = MARGIN

    def judge(self, data, medium):
        gains, pairs = [], []
        for size in self.sizes:
            one, other = self.better.at(size=size), self.than.at(size=size)
            ratio = data.ratio(medium, one, other, self.metric)
            if not ratio:
                continue
            gains.append(1 / ratio if self.metric in LESS_IS_BETTER else ratio)
            pairs.append((size, data.summary(medium, one, self.metric)[0],
                          data.summary(medium, other, self.metric)[0]))
        if not gains:
            return None
        gain = math.exp(statistics.fmean(math.log(one) for one in gains))
        verdict = judge_gain(gain, self.margin)
        words = {"gain": times(gain), "loss": times(1 / gain),
                 "range": spread(min(gains), max(gains)),
                 "better": figure(pairs[0][1]), "than": figure(pairs[0][2])}
        return Verdict(verdict, gain, min(gains), max(gains),
                       getattr(self, verdict).format(**words),
                       {"pairs": pairs, "metric": self.metric})

    def works(self):
        return [work.at(size=size) for size in self.sizes for work in (self.better, self.than)]


def figure(value):
    """As it stands in a sentence or a table."""
    size = abs(value)
    if size >= 1e6:
        return f"{value / 1e6:.3g} million"
    return f"{value:,.0f}" if size >= 100 else f"{value:.3g}"


@dataclass(frozen=True)
class Judge:
    """What is no comparison of two works. found(data, medium) -> (verdict, share, words) or
    None; the words fill the sentence."""
    name: str
    advice: str
    found: Callable
    yes: str
    same: str
    no: str
    needs: tuple = ()

    def judge(self, data, medium):
        made = self.found(data, medium)
        if made is None:
            return None
        verdict, share, words = made
        return Verdict(verdict, share, share, share, getattr(self, verdict).format(**words), {})

    def works(self):
        return list(self.needs)


def medians(data, medium, works, metric):
    """[median or None] of each work."""
    return [found[0] if (found := data.summary(medium, work, metric)) else None for work in works]


def closeness(labelled, metric, factor):
    """Whether the best and the worst of several works lie within `factor`."""
    def found(data, medium):
        values = {label: data.summary(medium, work, metric) for label, work in labelled.items()}
        values = {label: value[0] for label, value in values.items() if value and value[0]}
        if len(values) < 2:
            return None
        best, worst = max(values, key=values.get), min(values, key=values.get)
        apart = values[best] / values[worst]
        return ("yes" if apart <= factor else "no", apart,
                {"apart": times(apart), "best": best, "worst": worst,
                 "most": figure(values[best]), "least": figure(values[worst])})
    return found


def below(work, metric, limit):
    """Whether a work's figure stays below a limit."""
    def found(data, medium):
        value, = medians(data, medium, [work], metric)
        if value is None:
            return None
        return "yes" if value <= limit else "no", value, {"value": figure(value)}
    return found


def at_most(one, other, metric, limit):
    """Whether one work's figure is at most `limit` times the other's."""
    def found(data, medium):
        ratio = data.ratio(medium, one, other, metric)
        if not ratio:
            return None
        return "yes" if ratio <= limit else "no", ratio, {"ratio": times(ratio)}
    return found


def saturation(works, metric, share=0.9, margin=MARGIN):
    """How many (the key) are needed for `share` of the best, and what the best is to one."""
    def found(data, medium):
        values = {count: data.summary(medium, work, metric) for count, work in works.items()}
        values = {count: value[0] for count, value in values.items() if value and value[0]}
        if len(values) < 2 or min(works) not in values:
            return None
        one, best = values[min(works)], max(values.values())
        enough = min(count for count, value in values.items() if value >= share * best)
        gain = best / one
        return (judge_gain(gain, margin), gain,
                {"gain": times(gain), "enough": enough, "best": figure(best),
                 "one": figure(one), "share": f"{share * 100:.0f}"})
    return found


ORDER = {"yes": "holds here", "no": "does not hold here", "same": "makes no difference here"}
