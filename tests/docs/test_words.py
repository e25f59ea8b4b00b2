"""Page, client and pages of docs say what docs/glossary.md decides: none of the words that it retires is in a text for users."""
import glob
import os
import re

TOP = os.path.join(os.path.dirname(__file__), "../..")
GLOSSARY = "docs/glossary.md"


def read(path):
    with open(os.path.join(TOP, path), encoding="utf-8") as f:
        return f.read()


def rows(section):
    """[cells] of the table under a heading of the glossary."""
    text = re.search(r"^## %s$(.*?)(?=^## |\Z)" % section, read(GLOSSARY), re.M | re.S)[1]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in text.splitlines() if line.startswith("| ")][1:]


def retired():
    return [(row[0], word) for row in rows("For users") for word in row[2].split("; ") if word]


def pattern(word):
    """The word by itself, in the singular or plural, across the end of a line too; not as a part of a name or a file."""
    return re.compile(r"(?<![\w./-])%s(s\b|(?![\w./-]\w))" % re.sub(r"\\? ", r"\\s+", re.escape(word)), re.I)


def script_texts(path):
    """What TypeScript shows: text between tags, and literals that are more than one word or begin with a capital."""
    source = re.sub(r"/\*.*?\*/|(?<![:'\"`])//[^\n]*", "", read(path), flags=re.S)
    source = re.sub(r"\bclass=(\"[^\"]*\"|\{`[^`]*`\})|^import .*$", "", source, flags=re.M)
    for found in re.finditer(r"'((?:[^'\\\n]|\\.)*)'|\"([^\"\n]*)\"|`([^`]*)`|>([^<>{}=;()]*[a-z][^<>{}=;()]*)(?=[<{])", source):
        quoted = next((text for text in found.groups()[:3] if text is not None), None)
        text = quoted if quoted is not None else found[4]
        if quoted is None or " " in text.strip() or text[:1].isupper():
            yield text


def program_texts(path):
    """String literals of C, those beside each other as one."""
    source = re.sub(r"^#include.*$", "", read(path), flags=re.M)
    comment, character, literal = r"//[^\n]*|/\*.*?\*/", r"'(?:[^'\\\n]|\\.)+'", r"\"(?:[^\"\\\n]|\\.)*\""
    for found in re.finditer(r"%s|%s|(%s(?:\s*%s)*)" % (comment, character, literal, literal), source, re.S):
        if found[1]:
            yield re.sub(r"\"\s*\"", "", found[1])[1:-1].replace("\\n", " ")


def page_texts(path):
    yield re.sub(r"```.*?```|^    [^\n]*$|`[^`\n]*`", "", read(path), flags=re.S | re.M)


def shown():
    """(path, text) of all that users read."""
    def files(wanted):
        return sorted(os.path.relpath(p, TOP) for p in glob.glob(os.path.join(TOP, wanted), recursive=True))
    for path in files("querier/ui/src/**/*.ts") + files("querier/ui/src/**/*.tsx"):
        yield from ((path, text) for text in script_texts(path))
    for path in files("deploy/cli/*.c") + files("deploy/cli/*.def"):
        yield from ((path, text) for text in program_texts(path))
    for path in ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", *files("docs/*.md"), *files("docs/install/*.md"), *files("docs/decisions/*.md")]:
        if path != GLOSSARY:
            yield from ((path, text) for text in page_texts(path))


def test_no_text_has_a_word_that_the_glossary_retires():
    texts = list(shown())
    assert len({path for path, _ in texts}) > 40 and len(texts) > 800, len(texts)
    wrong = []
    for word, old in retired():
        for path, text in texts:
            found = pattern(old).search(text)
            if found:
                wrong.append("%s: %r; say %r" % (path, text[max(0, found.start() - 40):found.end() + 40], word))
    assert not wrong, "\n".join(wrong)


def test_retired_words_are_found_where_they_stand(tmp_path):
    """Each way of writing a text is read, and what is no text is not."""
    source = tmp_path / "x.tsx"
    source.write_text("// stack trace\nconst a = { text: 'A stack trace' }, b = <p class=\"stack trace\">the stack\n  traces</p>, c = `Stack trace ${1}`;\n")
    found = [t for t in script_texts(str(source)) if pattern("stack trace").search(t)]
    assert len(found) == 3, found
    source.write_text("// \"a tag\"\nbuf_z(b, \"one \"\n    \"tag\\n\", '\"', \"a\"); f(\"stage\", \"x/tag.h\", \"tag_name\");\n")
    assert [t for t in program_texts(str(source)) if pattern("tag").search(t)] == ["one tag "]  # not the comment, the path, the name
    source.write_text("A `tag` and\n\n    a tag\n\na tagline, max-tag, but one tag.\n")
    assert [len(pattern("tag").findall(t)) for t in page_texts(str(source))] == [1]


def test_the_glossary_is_in_order_and_says_each_word_once():
    seen = {}
    for section in ("For users", "Inside"):
        words = [row[0] for row in rows(section)]
        assert len(words) > 15 and words == sorted(words, key=str.lower), [w for w, s in zip(words, sorted(words, key=str.lower)) if w != s][:1]
        for word in (one for cell in words for one in cell.split(", ")):
            assert word not in seen, "%s: in %s and %s" % (word, seen.get(word), section)
            seen[word] = section
    for word, old in retired():
        assert old not in seen, "%s is retired, and explained" % old
