#!/usr/bin/env python3
"""Counts the lines of src/ by crate: code, unit tests, docs and comments. Blank lines count nowhere.

    scripts/count-lines.py [ROOT]

A unit test is a file below tests/, tests.rs, a scripted stand-in, or what follows `#[cfg(test)]` on a
module with a body.
"""

import re
import sys
from collections import Counter
from pathlib import Path

TEST_FILE = re.compile(r"(^|/)(tests(/|\.rs$)|scripted\.rs$|testing\.rs$|given\.rs$)")
TEST_MODULE = re.compile(r"^#\[cfg\(test\)\]\n(#\[[^\n]*\n)*mod \w+ \{", re.MULTILINE)


def count(path: Path, name: str) -> Counter:
    text = path.read_text()
    found = TEST_MODULE.search(text)
    if TEST_FILE.search(name) and "sandbox/given" not in name:
        parts = [("tests", text)]
    elif found:
        parts = [("code", text[: found.start()]), ("tests", text[found.start() :])]
    else:
        parts = [("code", text)]
    counts: Counter = Counter()
    for kind, part in parts:
        for line in map(str.strip, part.splitlines()):
            if line:
                counts["docs" if kind == "code" and line.startswith("//") else kind] += 1
    return counts


def main() -> None:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent) / "src"
    crates: dict[str, Counter] = {}
    for path in sorted(root.rglob("*.rs")):
        name = path.relative_to(root).as_posix()
        crates.setdefault(name.split("/")[0], Counter()).update(count(path, name))
    kinds = ["code", "tests", "docs"]
    rows = [(crate, *(counts[kind] for kind in kinds)) for crate, counts in crates.items()]
    rows.append(("all", *(sum(row[at] for row in rows) for at in range(1, 4))))
    print(f"{'crate':<12}" + "".join(f"{kind:>9}" for kind in kinds))
    for crate, *numbers in rows:
        print(f"{crate:<12}" + "".join(f"{number:>9}" for number in numbers))


main()
