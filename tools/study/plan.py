"""What is measured, in which order, and how long it takes."""
from dataclasses import dataclass

import medium as media
from rounds import turns
from sets import SETS


@dataclass(frozen=True)
class Kind:
    """quick, thorough; moment is the tests'."""
    name: str
    rounds: int
    seconds: float
    quick: bool

    def expected(self, work):
        """Seconds of one measurement: its legs, those that find the count, and the start of the
        client with its memory."""
        memory = work.size * max(work.outstanding, 1) / 1e9
        return 2 * self.seconds + 0.12 + 3 * memory


KINDS = {one.name: one for one in (Kind("quick", 5, 0.1, True), Kind("thorough", 5, 0.3, False),
                                   Kind("moment", 1, 0.005, True))}


@dataclass(frozen=True)
class Step:
    medium: str
    work: object
    round: int

    def key(self):
        return self.medium, self.work.name(), self.round


def applies(medium, work):
    """weft's settings and libraries are not those of a device with its own verbs."""
    return not medium.startswith("device-") or (work.crc == "on" and not work.through)


def points(sets, medium, quick):
    """[[work]]: groups measured in turn; a work that several sets show is in the first's group,
    with those it is compared with beside it."""
    seen, groups = set(), []
    for one in sets:
        for group in one.points(medium, quick):
            fresh = [work for work in dict.fromkeys(group)
                     if work.name() not in seen and applies(medium, work)]
            seen.update(work.name() for work in fresh)
            if fresh:
                groups.append(fresh)
    return groups


def steps(sets, mediums, kind):
    """All of it. Rounds outermost, so that whoever interrupts has all points of the first
    ones."""
    made = []
    for number in range(1, kind.rounds + 1):
        for medium in mediums:
            for group in points(sets, medium, kind.quick):
                made += [Step(medium, work, number) for work in turns(group, number)]
    return made


def chosen(names, have):
    """The sets by name (all if none is named) that this build can measure."""
    return [one for one in SETS if (not names or one.name in names)
            and (not one.needs or one.needs in have)]


def duration(left, kind):
    return sum(kind.expected(step.work) for step in left)


def time_text(seconds):
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def listing():
    """--list."""
    width = max(len(one.name) for one in SETS)
    paper = None
    for one in SETS:
        if one.paper != paper:
            paper = one.paper
            yield ("" if one is SETS[0] else "\n") + paper
        note = f" (with the {one.needs} library)" if one.needs else ""
        yield f"  {one.name.ljust(width)}  {one.figure}: {one.title}{note}"
    for kind in (KINDS["quick"], KINDS["thorough"]):
        made = steps(chosen((), ()), ["loopback", "veth-1500", "veth-9000"], kind)
        option = " with --quick" if kind.quick else ""
        yield ("\n" if kind.quick else "") + \
            f"all{option}: {len(made)} measurements, about {time_text(duration(made, kind))}"


def mediums_of(names):
    available = media.names()
    return [name for name in available if not names or name in names]
