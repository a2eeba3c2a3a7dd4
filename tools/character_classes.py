#!/usr/bin/env python3
"""Writes src/tokens/character_classes.def: the classes of characters of the Python package `tokenizers`, asked of it one code point at
a time. Its tables are those of older versions of Unicode, so no newer library knows them."""
import pathlib

import tokenizers
from tokenizers import normalizers, pre_tokenizers

ROOT = pathlib.Path(__file__).resolve().parent.parent
POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def removed(normalizer, keep=()):
    return [c for c in POINTS if c not in keep and normalizer.normalize_str(chr(c)) == ""]


def bert(**steps):
    names = ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase")
    return normalizers.BertNormalizer(**{name: name in steps for name in names})


def ranges(points):
    found = []
    for c in points:
        if found and found[-1][1] == c - 1:
            found[-1][1] = c
        else:
            found.append([c, c])
    return found


punctuation = pre_tokenizers.Punctuation()
CLASSES = {
    "kPunctuation": [c for c in POINTS if len(punctuation.pre_tokenize_str("a" + chr(c) + "a")) > 1],
    "kControl": removed(bert(clean_text=1), keep=(0xFFFD,)),
    "kNonspacingMark": removed(bert(strip_accents=1)),
    "kCombiningMark": removed(normalizers.StripAccents()),
}

lines = [f"// Characters by class, as version {tokenizers.__version__} of the Python package `tokenizers` has them. Made by tools/character_classes.py."]
for name, points in CLASSES.items():
    lines.append(f"TENON_CLASS_BEGIN({name})  // {len(points)} characters")
    row = ""
    for first, last in ranges(points):
        cell = f"TENON_RANGE({first:#x}, {last:#x}) "
        if len(row) + len(cell) > 140:
            lines.append(row.rstrip())
            row = ""
        row += cell
    lines += [row.rstrip(), "TENON_CLASS_END()"]
(ROOT / "src/tokens/character_classes.def").write_text("\n".join(lines) + "\n")
