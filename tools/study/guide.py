"""docs/BEST-PRACTICE.md: the advice as the data has it, each sentence with its figure."""
from medium import title_of
from sets import SETS

TOPICS = (
    ("Latency", ("rdma-1", "rdma-2", "rdma-3")),
    ("Throughput", ("rdma-4", "rdma-5", "rdma-6", "rdma-7")),
    ("CPU", ("rdma-8", "offload-1", "offload-2")),
    ("iWARP in software beside TCP", ("iwarp-t1", "iwarp-t2", "iwarp-2", "iwarp-3", "iwarp-4")),
    ("Sockets over iWARP", ("sockets-5", "sockets-6")),
)


def lower_first(sentence):
    """To go on after a colon; names such as RDMA stay as they are."""
    return sentence if sentence[1:2].isupper() else sentence[0].lower() + sentence[1:]


def make(result):
    return "\n".join([*head(result), *topics(result)]) + "\n"


def head(result):
    info = result.head
    yield "# Best practice"
    yield ""
    yield ("What to choose in an RDMA program on weft, as a run of `weft study` found it. Nothing "
           "here is written by hand: each sentence is")
    yield ("the verdict of a comparison, in the words that belong to what the data said, with its "
           "figure and the set that has the plot. Do not take it")
    yield "for your machine; make it there:"
    yield ""
    yield "```sh"
    quick = "--quick " if info["kind"] == "quick" else ""
    yield f"weft study {quick}--out DIR --guide docs/BEST-PRACTICE.md   # measures, and writes it"
    yield "weft study --page --out DIR --guide docs/BEST-PRACTICE.md    # writes it from DIR alone"
    yield "```"
    yield ""
    yield ("In brackets: the set, the network, and the figure on which the sentence rests. A ratio "
           "is taken within a round and averaged over the sizes that")
    yield ("[tools/study/sets.py](../tools/study/sets.py) names; then come its median and its "
           "lowest to highest round. A difference below 5 % counts as none; one")
    yield ("on which the rounds do not agree is left open. Measures are defined in "
           "[PING-AND-BLAST.md](PING-AND-BLAST.md).")
    yield ""
    if not result.mediums:
        yield "Nothing was measured."
        return
    yield (f"Setup: {info['cpu']}, {info['cpus']} CPUs, {info['kernel']}, {info['weft']}; "
           f"{info['kind']} study of {result.began[:10]}, {info['rounds']} rounds of "
           f"{info['seconds']} s, both sides on this machine, congestion control "
           f"{info['congestion']}; other work {busy_words(result)}. Sentences are of the "
           f"{title_of(result.mediums[0])} where no other network is named.")


# Above this share of other work a reader is warned.
BUSY = 0.05


def busy_words(result):
    share = result.others_share()
    if share is None:
        return "is not known"
    words = f"took {share * 100:.0f} % of the machine's CPU time meanwhile"
    return words + ("; figures of a machine so busy say little" if share > BUSY else "")


def topics(result):
    by_name = {one.name: one for one in SETS}
    for title, names in TOPICS:
        lines = [line for name in names for line in sentences(by_name[name], result)]
        if lines:
            yield from ("", f"## {title}", "", *lines)


def sentences(one, result):
    for _, verdicts in result.verdicts(one):
        first = next(iter(verdicts))
        verdict = verdicts[first]
        yield f"- {verdict.sentence} ({one.name}, {title_of(first)}: {verdict.brief})"
        yield from (f"  - {line}" for line in elsewhere(verdicts))


def elsewhere(verdicts):
    """What the other networks say to it: the same, with their figures, or another sentence."""
    first = next(iter(verdicts))
    alike = [f"{title_of(name)} ({verdict.brief})" for name, verdict in verdicts.items()
             if name != first and verdict.verdict == verdicts[first].verdict]
    if alike:
        yield f"The same over {' and over '.join(alike)}."
    for name, verdict in verdicts.items():
        if verdict.verdict != verdicts[first].verdict:
            yield (f"But over {title_of(name)}: {lower_first(verdict.sentence)} "
                   f"({verdict.brief})")
