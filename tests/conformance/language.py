"""The dialogue language: files of cases, macros and the values in their lines (README.md)."""
import re
import sys
from pathlib import Path

WORD = re.compile(r'(?:"(?:\\.|[^"\\])*"|[^\s"])+')
TAG = re.compile(r"#=\s*(.*)")
SIGNS = re.compile(r"(do|see|with|use|fails|take|[<>]\d?\+?)\s+(.*)")


class Mistake(Exception):
    """The dialogue itself cannot be understood."""


class Line:
    """One step: where it stands, its sign (do, see, <, >, ...) and its words."""

    def __init__(self, where, text):
        self.where, self.text = where, text
        found = SIGNS.fullmatch(text)
        if not found:
            raise Mistake(f"{where}: '{text}' begins with no known sign")
        self.sign = found.group(1)
        self.words = WORD.findall(found.group(2))

    def split(self):
        """(words without =, {key: value}) of the line, values still as text."""
        plain, keyed = [], {}
        for word in self.words:
            key, equals, value = word.partition("=")
            if equals and not word.startswith('"'):
                keyed[key] = value
            else:
                plain.append(word)
        return plain, keyed


class Case:
    def __init__(self, name, where):
        self.name, self.where, self.lines, self.tags = name, where, [], []
        self.settings, self.fails = {}, None


def read_macros(path):
    """{name: (parameters, lines)} of a file of macros."""
    macros, current = {}, None
    for number, text in lines_of(path):
        if text.startswith("macro "):
            name, *parameters = text.split()[1:]
            current = (dict(p.split("=", 1) for p in parameters), [])
            macros[name] = current
        elif current is None:
            raise Mistake(f"{path.name}:{number}: a line before the first macro")
        else:
            current[1].append((f"{path.name}:{number}", text))
    return macros


def lines_of(path):
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        text = text.strip()
        if text and (not text.startswith("#") or text.startswith("#=")):
            yield number, text


def read_cases(path):
    """The cases of a dialogue file, macros expanded."""
    path = Path(path)
    macros = read_macros(Path(__file__).parent / "dialogues" / "common.macros")
    cases = []
    for number, text in lines_of(path):
        where = f"{path.name}:{number}"
        if text.startswith("case "):
            cases.append(Case(text[5:].strip(), where))
        elif not cases:
            raise Mistake(f"{where}: a line before the first case")
        elif TAG.match(text):
            cases[-1].tags += TAG.match(text).group(1).replace(",", " ").split()
        else:
            add(cases[-1], Line(where, text), macros)
    return cases


def add(case, line, macros):
    if line.sign == "with":
        case.settings.update(line.split()[1])
    elif line.sign == "fails":
        case.fails = text_of(line.words[0])
    elif line.sign == "use":
        (name,), given = line.split()
        if name not in macros:
            raise Mistake(f"{line.where}: there is no macro {name}")
        parameters, body = macros[name]
        unknown = set(given) - set(parameters)
        if unknown:
            raise Mistake(f"{line.where}: macro {name} has no {', '.join(unknown)}")
        values = {**parameters, **given}
        for where, text in body:
            text = re.sub(r"\{([\w.-]+)\}", lambda m: values[m.group(1)], text)
            add(case, Line(f"{line.where} ({where})", text.strip()), macros)
    else:
        case.lines.append(line)


def text_of(word):
    return octets_of(word).decode("latin-1")


def octets_of(word):
    """Octets: "text", hex:0011, zeros:8, pattern:FIRST,COUNT, number:N, several joined by &."""
    out = b""
    for part in re.findall(r'"(?:\\.|[^"\\])*"|[^&]+', word):
        if part.startswith('"'):
            out += part[1:-1].encode("latin-1").decode("unicode_escape").encode("latin-1")
        elif part.startswith("hex:"):
            out += bytes.fromhex(part[4:])
        elif part.startswith("zeros:"):
            out += bytes(int(part[6:], 0))
        elif part.startswith("pattern:"):
            first, count = (int(number, 0) for number in part[8:].split(","))
            out += pattern(first, count)
        elif part.startswith("number:"):
            out += int(part[7:], 0).to_bytes(8, sys.byteorder)
        else:
            raise Mistake(f"'{part}' is not octets: write \"text\", hex:, zeros:, pattern: or "
                          "number:")
    return out


def is_octets(word):
    return word.startswith(('"', "hex:", "zeros:", "pattern:", "number:"))


def pattern(first, count):
    """Octets that differ from page to page, so that misplaced ones are seen."""
    return bytes((i * 7 + (i >> 8) * 13 + 1) & 0xFF for i in range(first, first + count))


def number_of(word, variables):
    """12, 0x1f, $m.to, and sums and differences of them."""
    total = 0
    for sign, term in re.findall(r"([+-]?)([^+-]+)", word):
        if term.startswith("$"):
            if term[1:] not in variables:
                raise Mistake(f"there is no ${term[1:]}")
            value = variables[term[1:]]
        else:
            try:
                value = int(term, 0)
            except ValueError:
                raise Mistake(f"'{term}' is no number") from None
        total += -value if sign == "-" else value
    return total
