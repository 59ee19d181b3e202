"""What a set says about a choice: a comparison of two works, judged from what was measured.

A claim is the paper's advice. Its verdict on a medium is "yes" (it holds here), "no" (the contrary
holds), "same" (the choice makes no difference), "open" (the rounds do not agree), or None (not
measured). The sentence that is printed is the verdict's: none is written in advance of the data.
"""
import math
import statistics
from dataclasses import dataclass
from typing import Callable

from work import LESS_IS_BETTER, value_of

# Below this a difference of medians is taken for none.
MARGIN = 0.05
# What makes no difference makes none in any round, by more than this.
ALIKE = 0.25


@dataclass
class Verdict:
    verdict: str  # yes, no, same, open
    gain: float   # how many times better the advised choice is; of a Judge: its own figure
    low: float
    high: float
    sentence: str
    brief: str    # the sentence's figure, for where the sentence is not said again


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

    def ratios(self, medium, pairs, metric):
        """For each round the ratio of one work to the other, averaged over the pairs: within a
        round the machine's weather cancels."""
        logarithms = {}
        for one, other in pairs:
            over, under = (self.values(medium, work, metric) for work in (one, other))
            for number, value in over.items():
                if value and under.get(number):
                    logarithms.setdefault(number, []).append(math.log(value / under[number]))
        return [math.exp(statistics.fmean(found)) for found in logarithms.values()]

    def ratio(self, medium, one, other, metric):
        ratios = self.ratios(medium, [(one, other)], metric)
        return statistics.median(ratios) if ratios else None

    def media(self):
        return {medium for medium, _ in self.rounds}


def judge_gains(gains, margin=MARGIN):
    """Of the rounds' ratios. A difference counts if it is large enough and the rounds agree on it,
    and so does that there is none; of four or more rounds one may disagree, of fewer none."""
    gain, may = statistics.median(gains), len(gains) // 4
    if 1 / (1 + margin) <= gain <= 1 + margin:
        far = 1 + max(margin, ALIKE)
        return "same" if sum(not 1 / far <= one <= far for one in gains) <= may else "open"
    against = sum((one > 1) != (gain > 1) for one in gains)
    return "open" if against > may else "yes" if gain > 1 else "no"


def unsure(advice):
    """The sentence of rounds that do not agree."""
    return f"The rounds do not agree on whether {advice}: {{gain}}."


def times(gain):
    """2.3, 14, 1.08"""
    return f"{gain:.0f}" if gain >= 9.95 else f"{gain:.1f}" if gain >= 1.95 else f"{gain:.2f}"


def with_spread(middle, low, high):
    """1.3 (1.1 to 1.4)"""
    return middle if times(low) == times(high) else f"{middle}, {times(low)} to {times(high)}"


@dataclass(frozen=True)
class Compare:
    """`better` should be better than `than` by `metric`, on average of these sizes.

    yes, same, no: sentences with {gain}, {loss} (its inverse), and the medians at the first size,
    {better} and {than}.
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
        pairs = [(one, other) for size in self.sizes
                 for one, other in [(self.better.at(size=size), self.than.at(size=size))]
                 if data.ratio(medium, one, other, self.metric)]
        gains = data.ratios(medium, pairs, self.metric)
        if not gains:
            return None
        if self.metric in LESS_IS_BETTER:
            gains = [1 / gain for gain in gains]
        gain, verdict = statistics.median(gains), judge_gains(gains, self.margin)
        sentence = unsure(self.advice) if verdict == "open" else getattr(self, verdict)
        better, than = medians(data, medium, pairs[0], self.metric)
        words = {"gain": times(gain), "loss": times(1 / gain),
                 "better": figure(better), "than": figure(than)}
        return Verdict(verdict, gain, min(gains), max(gains), sentence.format(**words),
                       self.brief(sentence, words, gains))

    @staticmethod
    def brief(sentence, words, gains):
        if "{better}" in sentence:
            return f"{words['better']}, not {words['than']}"
        if "{loss}" in sentence:
            return with_spread(words["loss"], 1 / max(gains), 1 / min(gains))
        return with_spread(words["gain"], min(gains), max(gains))

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
    """What is no comparison of two works. found(data, medium) -> (verdict, figure, words) or
    None; the words fill the sentence, and `brief` among them is its figure."""
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
        verdict, value, words = made
        sentence = unsure(self.advice) if verdict == "open" else getattr(self, verdict)
        return Verdict(verdict, value, value, value, sentence.format(**words), words["brief"])

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
                {"apart": times(apart), "brief": times(apart), "best": best, "worst": worst,
                 "most": figure(values[best]), "least": figure(values[worst])})
    return found


def below(work, metric, limit):
    """Whether a work's figure stays below a limit."""
    def found(data, medium):
        value, = medians(data, medium, [work], metric)
        if value is None:
            return None
        words = figure(value)
        return "yes" if value <= limit else "no", value, {"value": words, "brief": words}
    return found


def at_most(one, other, metric, limit):
    """Whether one work's figure is at most `limit` times the other's."""
    def found(data, medium):
        ratio = data.ratio(medium, one, other, metric)
        if not ratio:
            return None
        words = times(ratio)
        return "yes" if ratio <= limit else "no", ratio, {"ratio": words, "brief": words}
    return found


def saturation(works, metric, share=0.9):
    """How many (the key) are needed for `share` of the best: more than one?"""
    def found(data, medium):
        values = {count: data.summary(medium, work, metric) for count, work in works.items()}
        values = {count: value[0] for count, value in values.items() if value and value[0]}
        if len(values) < 2 or min(works) not in values:
            return None
        one, best = values[min(works)], max(values.values())
        enough = min(count for count, value in values.items() if value >= share * best)
        gain = best / one
        tried = ", ".join(str(count) for count in sorted(values))
        return ("yes" if enough > min(works) else "no", gain,
                {"gain": times(gain), "enough": enough, "tried": tried,
                 "share": f"{share * 100:.0f}", "brief": f"{enough} outstanding"})
    return found
