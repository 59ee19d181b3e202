"""A run beside an earlier one: what became better, what became worse.

Nearly all that is compared is a ratio to what was measured in the same rounds, so that a machine
that was slower on one of the days does not decide.
"""
import json
from pathlib import Path

import works
from report import columns, number
from rows import AT_LEAST, AT_MOST

# A figure has changed when it leaves this band around the earlier one, and the earlier rounds too.
BAND = 0.05
# Where one of these is another one, so may the ratios be.
MACHINE = ("processor", "cores", "kernel", "congestion_control")


def read(file):
    """The run that `--json` wrote to that file; ValueError if it did not."""
    try:
        run = json.loads(Path(file).read_text(encoding="utf-8"))
    except OSError as reason:
        raise ValueError(reason.strerror) from None
    except ValueError:
        run = None
    if not usable(run):
        raise ValueError("it is no JSON of an earlier run")
    return run


def usable(run):
    """Whether it has all that a comparison looks at."""
    try:
        entries = [entry for kind in (of_rows, of_peers, of_points) for entry in kind(run)]
        return isinstance(run["setup"], dict) and all(
            isinstance(entry["name"], str) and
            all(isinstance(entry.get(key, 0), (int, float)) for key in ("value", "low", "high"))
            for entry in entries)
    except (AttributeError, KeyError, TypeError):
        return False


def of_rows(run):
    """What can be compared of the table."""
    return [row for row in run.get("rows", []) if "value" in row]


def of_peers(run):
    """weft to each peer."""
    return [{"name": f"{peer['work']} {peer['subject']}", "direction": AT_LEAST,
             "title": f"{peer['work']}: weft to {peer['subject']}", "value": peer["weft_to_it"],
             "low": peer.get("weft_to_it_low", peer["weft_to_it"]),
             "high": peer.get("weft_to_it_high", peer["weft_to_it"])}
            for peer in run.get("peers", []) if peer.get("weft_to_it")]


def of_points(run):
    """Of measurements that need be no rows of the table."""
    return [{"name": name, "title": name, "value": figure["ratio"], "low": figure["ratio_low"],
             "high": figure["ratio_high"],
             "direction": AT_MOST if figure["unit"] in works.LESS_IS_BETTER else AT_LEAST}
            for name, figure in run["measured"].items() if "ratio" in figure]


def changes(now, then):
    """(entry, the earlier figure, what became of it) for all that both have."""
    before = {entry["name"]: entry for entry in then}
    return [(entry, before[entry["name"]]["value"], became(entry, before[entry["name"]]))
            for entry in now if entry["name"] in before]


def became(entry, old):
    """Better or worse only beyond the noise: outside the band, and outside the earlier rounds."""
    now, then = entry["value"], old["value"]
    low, high = old.get("low", then), old.get("high", then)
    if low <= now <= high or abs(now - then) <= BAND * abs(then):
        return "the same"
    return "better" if (now > then) == (entry["direction"] == AT_LEAST) else "WORSE"


def comparison(run, earlier, kinds):
    """The lines of a table; `kinds` says what of a run is compared."""
    setup = earlier["setup"]
    yield (f"beside the run of {setup.get('date', 'an unknown day')}, commit "
           f"{setup.get('commit', 'unknown')}")
    for part in MACHINE:
        if setup.get(part) != run["setup"].get(part):
            yield (f"NOT THE SAME {part.replace('_', ' ')}: then {setup.get(part, 'unknown')}, now "
                   f"{run['setup'].get(part, 'unknown')}")
    found = [change for kind in kinds for change in changes(kind(run), kind(earlier))]
    if not found:
        yield "nothing of this run was measured in that one"
        return
    lines = [["row", "then", "now", "change", ""]]
    for entry, then, word in found:
        by = f"{(entry['value'] / then - 1) * 100:+.1f} %" if then else "-"
        lines.append([entry["title"], number(then), number(entry["value"]), by, word])
    yield from columns(lines)
