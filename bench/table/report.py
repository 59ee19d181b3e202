"""The table as text."""

VERDICTS = {(True, True): "met, aim met", (True, False): "met", (True, None): "met",
            (False, False): "NOT MET", (False, None): "NOT MET", (None, None): ""}


def number(value):
    if value is None:
        return "-"
    size = abs(value)
    return f"{value:.0f}" if size >= 1000 else f"{value:.1f}" if size >= 100 else f"{value:.3g}"


def limit(row, key):
    if row.get(key) is None:
        return "-"
    return ("<= " if row["direction"] == "at most" else ">= ") + number(row[key])


def verdict(row):
    if "missing" in row:
        return "not measured"
    return VERDICTS.get((row.get("met"), row.get("aim_met")), "")


def columns(lines):
    """Lines of cells, aligned; all but the first cell to the right."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        cells = [line[0].ljust(widths[0])] + [cell.rjust(width) for cell, width
                                              in zip(line[1:], widths[1:])]
        yield "  ".join(cells).rstrip()


def table(rows):
    lines = [["row", "figure", "lowest", "highest", "weft", "raw", "at least", "aim", ""]]
    notes = []
    for row in rows:
        if "missing" in row:
            notes.append(f"{row['title']}: not measured: {row['missing']}")
        elif row.get("note"):
            notes.append(f"{row['title']}: {row['note']}")
        lines.append([row["title"], number(row.get("value")), number(row.get("low")),
                      number(row.get("high")), number(row.get("weft")), number(row.get("raw")),
                      limit(row, "least"), limit(row, "aim"), verdict(row)])
    yield from columns(lines)
    if notes:
        yield ""
        yield from notes


def points_table(measured):
    """Points that are no rows of the table: both sides and how they compare."""
    lines = [["point", "weft", "raw", "unit", "ratio", "lowest", "highest", "CPU s/GB weft", "raw"]]
    for name, row in measured.items():
        if "missing" in row:
            yield f"{name}: not measured: {row['missing']}"
            continue
        cpu = row.get("cpu", {})
        lines.append([name, number(row["rdma"]), number(row["tcp"]), row["unit"],
                      number(row["ratio"]), number(row["ratio_low"]), number(row["ratio_high"]),
                      number(cpu.get("rdma")), number(cpu.get("tcp"))])
    yield from columns(lines)


def peers_table(peers):
    """Every subject of a work, with raw of the same rounds at 1."""
    lines = [["work", "subject", "figure", "unit", "to raw", "weft to it", "weft is"]]
    notes = []
    for peer in peers:
        if "missing" in peer:
            notes.append(f"{peer['work']}, {peer['subject']}: not measured: {peer['missing']}")
            continue
        ahead = peer.get("ahead")
        lines.append([peer["work"], peer["subject"], number(peer["value"]), peer["unit"],
                      number(peer.get("to_raw")), number(peer.get("weft_to_it")),
                      "" if ahead is None else "ahead" if ahead else "BEHIND"])
    yield from columns(lines)
    if notes:
        yield ""
        yield from notes
    settings = {peer["subject"]: peer["settings"] for peer in peers if peer.get("settings")}
    if settings:
        yield ""
        for subject, words in sorted(settings.items()):
            yield f"{subject}: {words}"


def setup_lines(setup):
    yield f"machine   {setup['processor']}, {setup['cores']} core(s)"
    yield f"software  Linux {setup['kernel']}, {setup['compiler']}, commit {setup['commit']}"
    yield (f"network   loopback, congestion control {setup['congestion_control']}; the system's "
           f"own is {setup['system_congestion_control']}")
    yield (f"method    {setup['rounds']} rounds of TCP and weft, {setup['seconds']} s each; a "
           "figure is the median of the ratios within a round")


def unmet(rows):
    return [row for row in rows if row.get("met") is False]


def summary(run):
    """One line: how much was measured, how much of it is as it should be."""
    made = run["rows"]
    bound = sum(row.get("met") is not None for row in made)
    return (f"{sum('value' in row for row in made)} of {len(made)} rows measured in "
            f"{run['setup']['took_seconds']} s; met: {bound - len(unmet(made))} of the {bound} "
            "with 'at least'")
