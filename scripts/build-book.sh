#!/usr/bin/env bash
# Builds the pages of docs/ as a site with search into DIR (default: target/book), which is replaced,
# and looks whether every link within it leads somewhere.
#
#   scripts/build-book.sh [--out DIR]
#
# The notebook becomes a page. The site holds docs/ without docs/lab: a link to a file outside becomes
# the name of that file. Needs mdbook (cargo install mdbook) and python3.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out="${CARGO_TARGET_DIR:-target}/book"
while [ $# -gt 0 ]; do
    case "$1" in
        --out) out="$2"; shift ;;
        *) sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
    esac
    shift
done
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cp -r docs "$work/docs"
rm -r "$work/docs/lab"
mkdir -p "$out"
out="$(cd "$out" && pwd)"

python3 - "$work/docs" <<'PYTHON'
import json, os, pathlib, re, sys

docs = pathlib.Path(sys.argv[1])

# The notebook, its code as it stands: what it prints is for those who run it.
cells = json.loads((docs / "how-to/python.ipynb").read_text())["cells"]
texts = ["".join(cell["source"]) for cell in cells]
shown = [text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```"
         for cell, text in zip(cells, texts)]
(docs / "how-to/notebook.md").write_text("\n\n".join(shown) + "\n")
summary = docs / "SUMMARY.md"
line = "- [Use it from Python](how-to/python.md)\n"
text = summary.read_text()
assert line in text, "docs/SUMMARY.md has no page for Python"
summary.write_text(text.replace(line, line + "  - [A notebook](how-to/notebook.md)\n"))

for page in docs.rglob("*.md"):
    def kept(link):
        target = link[2].split("#")[0]
        place = (page.parent / target).resolve()
        is_held = place.is_relative_to(docs.resolve()) and not place.is_relative_to(docs.resolve() / "lab")
        outside = "://" not in target and target and not is_held
        return link[1] if outside else link[0]
    text = re.sub(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)", kept, page.read_text())
    # mdbook renames the pages of this name, and not what links to them.
    if page != summary:
        text = re.sub(r"(\]\([^)\s]*)README\.md", r"\1index.md", text)
    page.write_text(text)
PYTHON

mdbook build "$work/docs" --dest-dir "$out"
# Where it was built is of no use there.
rm -f "$out/book.toml"

python3 - "$out" <<'PYTHON'
import html.parser, pathlib, sys, urllib.parse

site = pathlib.Path(sys.argv[1])

class Links(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.links, self.ids = [], set()

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.links += [given[key] for key in ("href", "src") if given.get(key)]
        self.ids.update(given[key] for key in ("id", "name") if given.get(key))

pages = {}
for path in sorted(site.rglob("*.html")):
    pages[path.resolve()] = Links()
    pages[path.resolve()].feed(path.read_text())
broken, seen = [], 0
for path, page in pages.items():
    # All chapters on one page, and one for addresses that do not exist: the links are those of others.
    if path.name in ("print.html", "404.html", "toc.html"):
        continue
    for link in page.links:
        place = urllib.parse.urlsplit(link)
        if place.scheme or place.netloc:
            continue
        seen += 1
        target = (path.parent / urllib.parse.unquote(place.path)).resolve() if place.path else path
        found = target.exists() and (not place.fragment or target not in pages
                                     or urllib.parse.unquote(place.fragment) in pages[target].ids)
        if not found:
            broken.append(f"{path.relative_to(site.resolve())}: {link}")
print(f"{site}: {len(pages)} pages, {seen} links, {len(broken)} of them broken")
sys.exit("\n".join(broken) if broken else 0)
PYTHON
