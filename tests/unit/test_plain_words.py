"""The language of the source. Its figures may only fall: lower a limit once the tree is below."""

import ast
import itertools
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Names that say nothing of what they hold.
GENERIC = re.compile(
    "all|asked|begun|both|come|counted|each|ended|found|given|gone|kept|known|left|made|one|other|"
    "others|own|read|said|same|seen|shown|taken|them|these|they|those|told|what|which|written"
)
# A docstring that begins like this has no verb that says what the code does.
CLAUSE = re.compile(
    r"(As|By|From|In|Of|With) (what|which)\b|(How|That|These|Those|What|Whatever|When|Where|Whether"
    r"|Which|Who|Whoever|Whose)\b|One that\b|So (long|many|much|often)\b|(In so|Of) "
)
# As ruff formats one; a tokenizer would take seconds more for the same.
COMMENT = re.compile(r"(?m)(?:^ *|  )(#.*)$")
MOST = {
    "generic names in 1,000 names": 10,
    "docstrings that begin with a clause, in 1,000": 30,
    "where in 1,000 words": 3,
    "so many, so long, in 10,000 words": 1,
    "classes that share their name": 5,
    "file names in three packages or more": 6,
}


class Language:
    """The names, docstrings and comments of all source files."""

    def __init__(self):
        self.names, self.classes = Counter(), Counter()
        self.docstrings, self.prose = [], []
        self.files = Counter()
        for package in ("dlmon", "tui", "workloads"):
            for path in sorted((ROOT / package).rglob("*.py")):
                self._add(path)

    def _add(self, path):
        text = path.read_text("utf-8")
        if not path.name.startswith("__"):
            self.files[path.name] += 1
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.names[node.id.strip("_")] += 1
            elif isinstance(node, ast.arg):
                self.names[node.arg.strip("_")] += 1
            elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                self.classes[node.name] += 1
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                self.docstrings.append(str(node.value.value).strip())
        self.prose += COMMENT.findall(text)

    def figures(self):
        words = re.findall(r"[a-z']+", " ".join([*self.prose, *self.docstrings]).lower())
        pairs = Counter(itertools.pairwise(words))
        generic = sum(count for name, count in self.names.items() if GENERIC.fullmatch(name))
        clauses = sum(bool(CLAUSE.match(docstring)) for docstring in self.docstrings)
        so_many = sum(pairs["so", word] for word in ("long", "many", "much", "often"))
        return {
            "generic names in 1,000 names": 1_000 * generic / self.names.total(),
            "docstrings that begin with a clause, in 1,000": 1_000 * clauses / len(self.docstrings),
            "where in 1,000 words": 1_000 * words.count("where") / len(words),
            "so many, so long, in 10,000 words": 10_000 * so_many / len(words),
            "classes that share their name": sum(n > 1 for n in self.classes.values()),
            "file names in three packages or more": sum(n > 2 for n in self.files.values()),
        }


def test_the_source_is_written_in_plain_words():
    figures = Language().figures()
    assert figures.keys() == MOST.keys()
    assert {name: n for name, n in figures.items() if n > MOST[name]} == {}
