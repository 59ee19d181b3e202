"""How things are compared on a machine that changes its speed: side by side, in rounds."""
import statistics


def turns(subjects, number):
    """The subjects of round `number` (from 1), one right after the other; every other round goes
    backwards, so that nobody is always the first."""
    return list(subjects) if number % 2 else list(reversed(subjects))


def in_rounds(subjects, rounds, measure):
    """{subject: [what measure(subject) gave in each round]}"""
    found = {subject: [] for subject in subjects}
    for number in range(1, rounds + 1):
        for subject in turns(subjects, number):
            found[subject].append(measure(subject))
    return found


def compared(baseline, subject):
    """One quantity of two, round by round: medians, and the ratio within a round, which is what a
    machine that changes its speed does not spoil."""
    ratios = [value / base for base, value in zip(baseline, subject)]
    return {"tcp": statistics.median(baseline), "rdma": statistics.median(subject),
            "ratio": statistics.median(ratios), "ratio_low": min(ratios),
            "ratio_high": max(ratios), "ratios": ratios}
