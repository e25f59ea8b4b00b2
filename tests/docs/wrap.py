#!/usr/bin/env python3
"""tests/docs/wrap.py PAGE...: breaks the lines of paragraphs and list items that are longer than 100 columns.

Tables, headings, code, drawings and comments stay as they are, because a line break would change what they mean. So does a
paragraph that fits. Nothing is broken inside `code`. tests/docs/test_docs.py finds the lines that this program would break.
"""
import re
import sys

WIDTH = 100
ITEM = re.compile(r"( *)([-*] |\d+\. )(?=\S)")
# A word that would start a list, a heading, a table or a quotation if it stood first in a line.
NOT_FIRST = re.compile(r"([-+*>|]|#+|=+|\d+[.)])$")


def words(text):
    """The words of a paragraph. A span of code is part of one word, and a word that may not be first belongs to the one before."""
    found = re.findall(r"(?:`+[^`]+`+|[^\s`]|`)+", text)
    glued = []
    for word in found:
        if glued and NOT_FIRST.match(word):
            glued[-1] += " " + word
        else:
            glued.append(word)
    return glued


def paragraph(lines):
    """The lines of one paragraph or list item, broken at WIDTH if one of them is longer."""
    if all(len(line) <= WIDTH for line in lines):
        return lines
    item = ITEM.match(lines[0])
    first = item[0] if item else re.match(" *", lines[0])[0]
    later = " " * len(first)
    text = " ".join([lines[0][len(first):]] + [line.strip() for line in lines[1:]])
    broken, line, has = [], first, False
    for word in words(text):
        if has and len(line) + 1 + len(word) > WIDTH:
            broken.append(line)
            line, has = later, False
        line += (" " if has else "") + word
        has = True
    return broken + [line]


def wrapped(text):
    out, open_lines, fence, item = [], [], False, 0  # item: where the text of the last list item begins

    def end():
        out.extend(paragraph(open_lines))
        open_lines.clear()

    for line in text.split("\n"):
        is_fence = line.lstrip().startswith("```")
        is_code = not open_lines and line.startswith(" " * (item + 4))
        if fence or is_fence:
            end()
            out.append(line)
            fence = fence != is_fence
        elif not line.strip() or re.match(r"#|\||<(?!https?:)|!\[", line) or is_code:
            end()
            out.append(line)
            item = item if not line.strip() or line.startswith(" ") else 0
        else:
            if marker := ITEM.match(line):
                end()
                item = len(marker[0])
            elif not open_lines and not line.startswith(" "):
                item = 0
            open_lines.append(line)
    end()
    return "\n".join(out)


def main(pages):
    for page in pages:
        with open(page, encoding="utf-8") as f:
            text = f.read()
        after = wrapped(text)
        if after != text:
            with open(page, "w", encoding="utf-8") as f:
                f.write(after)


if __name__ == "__main__":
    main(sys.argv[1:])
