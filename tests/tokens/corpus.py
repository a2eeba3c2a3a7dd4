"""Deterministic training text and test strings, from Python's standard library and from Unicode."""
import functools
import pathlib
import random
import sysconfig
import unicodedata

from tokenizers import normalizers

SPACES = " \t\n\r\x0b\x0c\x85\xa0\u1680\u2000\u2003\u2009\u200a\u2028\u2029\u202f\u205f\u3000\u180e\u200b\ufeff"
# First and last code point of the Unicode blocks that test strings are drawn from.
BLOCKS = [(0x20, 0x7E), (0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x52F), (0x590, 0x6FF), (0x900, 0xDFF), (0xE00, 0xEFF), (0x1100, 0x11FF),
          (0x1E00, 0x1FFF), (0x2000, 0x206F), (0x2070, 0x22FF), (0x2460, 0x27BF), (0x3000, 0x30FF), (0x3400, 0x34FF), (0x4E00, 0x9FFF),
          (0xAC00, 0xD7A3), (0xF900, 0xFDFF), (0xFE00, 0xFFFD), (0x10000, 0x107FF), (0x1D400, 0x1D7FF), (0x1F1E6, 0x1F6FF), (0x1F900, 0x1F9FF),
          (0x20000, 0x200FF), (0xE0000, 0xE01EF), (0, 0x10FFFF)]
MARKS = "\u0334\u3099\u05b0\u05b4\u0316\u0301\u0345"  # Combining classes 1, 8, 10, 14, 220, 230, 240.
EMOJI = ["👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪🇯🇵", "❤️", "1️⃣", "🤷🏻‍♂️"]
WORDS = ["don't", "I'll", "WE'RE", "they'Ve", "it'ſ", "'S", "'d'D", "naïve", "İstanbul", "ΣΑΣ", "straße", "ﬁnger", "e\u0301te\u0301", "नमस्ते", "مرحبا بالعالم",
         "שָׁלוֹם", "東京タワー", "한국어", "ภาษาไทย", "1234567", "3.14159", "٣٤٥", "Ⅻ", "½", "x²", "foo_bar", "http://a.b/c?d=e&f", "a--b", "...", "¿qué?", "\u2581x"]


@functools.cache
def known_points():
    """All code points, except those that are not assigned in Unicode 14 (the version of PCRE2 10.42) and those whose normal forms or
    combining classes (observable by the order of marks) are newer than the tables of `tokenizers`. docs/limits.md counts them."""
    forms = {"NFD": normalizers.NFD(), "NFKD": normalizers.NFKD()}
    points = [chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]

    def is_known(text):
        return all(unicodedata.normalize(form, text) == n.normalize_str(text) for form, n in forms.items())

    def is_known_mark(c):
        return unicodedata.category(c)[0] != "M" or all(is_known(c + mark) and is_known(mark + c) for mark in MARKS)

    return [ord(c) for c in points if is_known(c) and is_known_mark(c)]


@functools.cache
def library_text(limit):
    """The beginnings of files of the standard library."""
    paths = sorted(pathlib.Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return "".join(path.read_text(encoding="utf-8", errors="ignore")[:40000] for path in paths)[:limit]


class Strings:
    def __init__(self, seed, extras=()):
        self.random = random.Random(seed)
        self.points = known_points()
        allowed = set(self.points)
        self.blocks = [[c for c in range(first, last + 1) if c in allowed] for first, last in BLOCKS[:-1]] + [self.points]
        self.text = library_text(400_000)
        self.extras = list(extras)

    def characters(self):
        block = self.random.choice(self.blocks)
        return "".join(chr(self.random.choice(block)) for _ in range(self.random.randint(1, 12)))

    def fragment(self):
        r = self.random
        kind = r.randrange(9 if self.extras else 8)
        if kind == 0:
            start = r.randrange(len(self.text) - 80)
            return self.text[start:start + r.randint(1, 80)]
        if kind == 1:
            return r.choice(WORDS)
        if kind == 2:
            return "".join(r.choice(SPACES) for _ in range(r.randint(1, 6)))
        if kind == 3:
            return r.choice(EMOJI)
        if kind == 4:
            return str(r.randrange(10 ** r.randint(1, 12)))
        if kind == 5:
            return r.choice(" '\n.,-_!") * r.randint(1, 5)
        if kind == 8:
            return r.choice(self.extras)
        return self.characters()

    def one(self):
        return "".join(self.fragment() for _ in range(self.random.randint(1, 8)))

    def many(self, count):
        return ["", " ", "\n", "a"] + [self.one() for _ in range(count - 4)]


def training_lines():
    strings = Strings(1)
    return strings.text.splitlines(keepends=True)[:6000] + [strings.one() for _ in range(3000)]
