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


def rounds_of(data, medium, works, metric):
    """[{label: value}] of each round; of the labels that were measured in it."""
    found = {label: data.values(medium, work, metric) for label, work in works.items()}
    numbers = sorted({number for values in found.values() for number in values})
    return [{label: values[number] for label, values in found.items() if values.get(number)}
            for number in numbers]


def agreed(verdicts, middle):
    """The middle's verdict, if the rounds' do not speak against it; as judge_gains has it."""
    return middle if sum(one != middle for one in verdicts) <= len(verdicts) // 4 else "open"


def closeness(labelled, metric, factor):
    """Whether the best and the worst of several works lie within `factor`."""
    def found(data, medium):
        apart = [max(values.values()) / min(values.values())
                 for values in rounds_of(data, medium, labelled, metric) if len(values) > 1]
        if not apart:
            return None
        values = dict(zip(labelled, medians(data, medium, labelled.values(), metric)))
        values = {label: value for label, value in values.items() if value}
        best, worst = max(values, key=values.get), min(values, key=values.get)
        between = values[best] / values[worst]
        verdict = agreed(["yes" if one <= factor else "no" for one in apart],
                         "yes" if between <= factor else "no")
        return (verdict, between,
                {"apart": times(between), "gain": times(between), "brief": times(between),
                 "best": best, "worst": worst, "most": figure(values[best]),
                 "least": figure(values[worst])})
    return found


def below(work, metric, limit):
    """Whether a work's figure stays below a limit."""
    def found(data, medium):
        value, = medians(data, medium, [work], metric)
        if value is None:
            return None
        verdict = agreed(["yes" if one <= limit else "no"
                          for one in data.values(medium, work, metric).values()],
                         "yes" if value <= limit else "no")
        words = figure(value)
        return verdict, value, {"value": words, "gain": words, "brief": words}
    return found


def at_most(one, other, metric, limit):
    """Whether one work's figure is at most `limit` times the other's."""
    def found(data, medium):
        ratios = data.ratios(medium, [(one, other)], metric)
        if not ratios:
            return None
        ratio = statistics.median(ratios)
        verdict = agreed(["yes" if found <= limit else "no" for found in ratios],
                         "yes" if ratio <= limit else "no")
        return verdict, ratio, {"ratio": times(ratio), "gain": times(ratio),
                                "brief": with_spread(times(ratio), min(ratios), max(ratios))}
    return found


def enough_of(values, share):
    best = max(values.values())
    return min(count for count, value in values.items() if value >= share * best)


def saturation(works, metric, share=0.9):
    """How many (the key) are needed for `share` of the best: more than one?"""
    def found(data, medium):
        one = min(works)
        rounds = [values for values in rounds_of(data, medium, works, metric)
                  if one in values and len(values) > 1]
        if not rounds:
            return None
        counts = [enough_of(values, share) for values in rounds]
        middle = statistics.median_low(counts)
        gain = statistics.median(max(values.values()) / values[one] for values in rounds)
        verdict = agreed(["yes" if count > one else "no" for count in counts],
                         "yes" if middle > one else "no")
        tried = ", ".join(str(count) for count in sorted({key for row in rounds for key in row}))
        spread = "" if min(counts) == max(counts) else f", {min(counts)} to {max(counts)}"
        return (verdict, gain,
                {"gain": times(gain), "enough": middle, "tried": tried,
                 "share": f"{share * 100:.0f}", "brief": f"{middle}{spread} outstanding"})
    return found
