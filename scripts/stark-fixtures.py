#!/usr/bin/env python3
"""Writes small STaRK bases, and what the reference implementation makes of them.

    python3 scripts/stark-fixtures.py tests/data/stark

needs stark-qa 1.1.0 with torch, torch-geometric, pandas, numpy, beautifulsoup4, nltk and
langchain-text-splitters. For each kind of base it writes, in the layout of the benchmark,

    KIND/processed/...       files as the reference saves them; packed too, but for mag
    KIND/stark_qa, KIND/split
    KIND/golden.json         documents (four variants), relations, neighbours, tuples, candidates
                             and edge counts, as the reference gives them for the merged graph and
                             (`stored`) for the graph as it is on disk
    python.json              floats, strings and unprintable characters, as Python writes them

All content is invented here. Modules of the reference that only download are replaced by stubs.
One thing is changed: reviews of equal votes are sorted stably. The reference leaves their order to
numpy, whose default sort depends on the processor.
"""

import csv
import json
import math
import random
import shutil
import struct
import sys
import types
import unicodedata
from pathlib import Path

import numpy as np
import pandas as pd
import torch


def stub(name, **names):
    module = types.ModuleType(name)
    for key, value in names.items():
        setattr(module, key, value)
    sys.modules[name] = module


def refuse(*_args, **_kwargs):
    raise RuntimeError("nothing is downloaded here")


def load_reference():
    """The classes of the package, without its `__init__`, which wants language models."""
    import importlib.util

    root = Path(importlib.util.find_spec("stark_qa").submodule_search_locations[0])
    package = types.ModuleType("stark_qa")
    package.__path__ = [str(root)]
    sys.modules["stark_qa"] = package
    stub("ogb")
    stub("ogb.utils")
    stub("ogb.utils.url", download_url=refuse, extract_zip=refuse)
    stub("ogb.nodeproppred", NodePropPredDataset=refuse)
    stub("langdetect", detect=refuse)
    stub("gdown")
    stub("tdc")
    stub("tdc.resource", PrimeKG=refuse)
    from stark_qa.skb import amazon, mag, prime
    from stark_qa.tools import io, node

    class Stable:
        """numpy with a stable argsort."""

        def __getattr__(self, name):
            return getattr(np, name)

        @staticmethod
        def argsort(values):
            return np.argsort(values, kind="stable")

    amazon.np = Stable()
    return amazon.AmazonSKB, mag.MagSKB, prime.PrimeSKB, io.save_files, node.df_row_to_dict


NAN = float("nan")
ODD = 'naïve "quoted" – it\'s 5″ \\ back\tslash\u00a0\u200b\u2028 κόσμε 🚲'


# ---------------------------------------------------------------- amazon


def amazon_node(**changes):
    node = {
        "review": [],
        "qa": [],
        "asin": "B000000001",
        "title": "Plain Bell",
        "global_category": "Sports and Outdoors",
        "price": "",
        "feature": [],
        "rank": [],
        "details": {},
        "description": [],
    }
    node.update(changes)
    return node


def reviews(rows, df_row_to_dict):
    """Reviews with the value types that a data frame gives."""
    columns = ["reviewerID", "summary", "style", "reviewText", "vote", "overall", "verified", "reviewTime"]
    filled = [
        {
            "reviewerID": f"R{i}",
            "style": row.get("style", NAN),
            "summary": row.get("summary", f"summary {i}"),
            "reviewText": row.get("text", f"Body of review {i}."),
            "vote": row.get("vote", NAN),
            "overall": float(i % 5 + 1),
            "verified": i % 2 == 0,
            "reviewTime": "01 2, 2017",
        }
        for i, row in enumerate(rows)
    ]
    frame = pd.DataFrame(filled, columns=columns).astype({"summary": object, "reviewText": object, "vote": object})
    return [df_row_to_dict(frame.iloc[i], columns) for i in range(len(frame))]


def questions(n):
    return [
        {
            "questionType": "yes/no",
            "answerType": "Y",
            "question": f"Does it fit size {i}?",
            "answer": NAN if i == 3 else f"Yes - it fits {i}.",
            "answerTime": "May 1, 2014",
        }
        for i in range(n)
    ]


def amazon(out, AmazonSKB, save_files, df_row_to_dict):
    votes = list(range(40))
    random.Random(3).shuffle(votes)
    many = [{"vote": str(v)} for v in votes[:35]]
    many[4]["vote"] = "1,204"
    many[9]["vote"] = "12,345,678"
    nodes = [
        amazon_node(),
        amazon_node(
            title="Rain Cover - Large",
            asin="B000000002",
            brand="Hollow Oak",
            category=["covers", "rain gear"],
            color=["navy blue"],
            price="$12.99",
            rank=[">#2,345 in Sports & Outdoors (See Top 100)", ">#5 in Covers"],
            details={"product_dimensions": "3 x 4 x 5 inches ; 7 ounces", "item_model_number": "RC-1"},
            description=["  Keeps rain out.", "Folds  small. "],
            feature=["Two straps", "", "ASIN: B000000002", "has a Basin shape", ODD],
            review=reviews([{"vote": "3"}, {}, {"vote": "11", "summary": NAN}, {"text": NAN}], df_row_to_dict),
            qa=questions(5),
        ),
        amazon_node(
            title=ODD,
            asin="B000000003",
            brand="Hollow Oak",
            category=["bells"],
            details={"product_dimensions": "9 x 9 x 9 inches"},
            description=["", " "],
            feature=["asin B1", "ASIN B2"],
            review=reviews(many, df_row_to_dict),
            qa=questions(31),
        ),
        amazon_node(
            title="Dyno Light",
            asin="B000000004",
            brand="Ünder Ø & Sons",
            category=["lights", "bells", "lights"],
            color=["red", "navy blue"],
            details={"product_dimensions": "1 x 1 ; 2 x 2 ; 3 pounds", "notes": {"inner": ["a", 1, 2.5, None]}},
            description=["Line one\nline two\r\nline: three"],
            feature=["one:\nfeature"],
            review=reviews([{"vote": "2"}] * 20 + [{}] * 9, df_row_to_dict),
        ),
        amazon_node(title="Saddle Bag", asin="B000000005", brand="Ünder Ø & Sons",
                    details={"product_dimensions": {"depth": "3"}}, color=["red"], price="$4.00"),
        amazon_node(title="Chain Oil", asin="B000000006", category=["covers"],
                    details={"product_dimensions": "5 inches ; 1 ounce"}, description=["Oil. - Two  parts"]),
        amazon_node(title="nan", asin="B000000007", brand="123", description=["Last one."]),
        amazon_node(title="Pump", asin="B000000008"),
    ]
    buy, view = 0, 1
    edges = [
        (0, 1, buy), (1, 0, view),            # both orders, both types: merged into also_buy
        (0, 2, view), (2, 0, view),           # viewed both ways: stays also_view
        (1, 2, view), (1, 2, buy),            # both types one way
        (2, 3, view), (2, 3, view), (3, 2, buy),
        (3, 4, view),                         # one way only
        (3, 5, buy), (3, 5, buy),             # twice
        (4, 5, view), (5, 5, buy),            # a loop
        (6, 0, buy), (6, 1, view), (0, 6, buy),
    ]
    edge_index, edge_types = tensors(edges)
    files = {
        "node_info": dict(enumerate(nodes)),
        "edge_index": edge_index,
        "edge_types": edge_types,
        "edge_type_dict": {0: "also_buy", 1: "also_view"},
    }
    save_files(out / "processed", **files)
    make = lambda **options: AmazonSKB(root=str(out), download_processed=False, **options)
    make()  # Adds brands, categories and colours, and stores the result.
    for file in (out / "processed").iterdir():
        if file.is_file():
            file.unlink()
    return make


# ---------------------------------------------------------------- mag


def mag(out, MagSKB, save_files):
    nodes = {}
    types_of = []

    def add(kind, **fields):
        node_id = len(nodes)
        nodes[node_id] = {"id": 10 + node_id, "mag_id": 2_000_000_000 + node_id, **fields, "type": kind, "new_id": node_id}
        types_of.append(["author", "institution", "field_of_study", "paper"].index(kind))
        return node_id

    def named(kind, name, papers=3, cited=17, **more):
        return add(kind, Rank=18000, DisplayName=name, PaperCount=papers, CitationCount=cited, **more)

    authors = [
        named("author", "Ada Mirth", LastKnownAffiliationId=7),
        named("author", "Bo-1 Lind", 1, -1, LastKnownAffiliationId=-1),
        named("author", -1, 2, 2, LastKnownAffiliationId=-1),
        named("author", "José Ñúñez", -1, 100, LastKnownAffiliationId=-1),
        named("author", "Eve-11 Moss", -11, -1, LastKnownAffiliationId=-1),
        named("author", "-1", 5, 5, LastKnownAffiliationId=-1),
    ]
    institutions = [
        named("institution", "Institute of Tides"),
        named("institution", -1, -1, -1),
        named("institution", "Oak-1 College", 4, -1),
    ]
    fields = [
        named("field_of_study", "HIV-1 research", 12, 34, Level=2),
        named("field_of_study", -1, 1, 1, Level=0),
        named("field_of_study", "Tidal locks", -1, -1, Level=3),
    ]

    def paper(title, abstract, **changes):
        keys = {
            "PaperRank": 21000, "DocType": "Journal", "OriginalTitle": title.lower() if isinstance(title, str) else -1,
            "BookTitle": -1, "Year": 2014.0, "Date": "2014-03-01", "Publisher": -1, "JournalId": -1,
            "ConferenceSeriesId": -1, "ConferenceInstanceId": -1, "ReferenceCount": 4,
            "PaperCitationCount": 9, "EstimatedCitationCount": 9, "OriginalVenue": -1,
            "JournalDisplayName": -1, "ConferenceSeriesDisplayName": -1, "ConferenceInstancesDisplayName": -1,
        }
        keys.update(changes)
        return add("paper", **keys, title=title, abstract=abstract)

    papers = [
        paper("On slow tides", "We study tides.\r\nThey are slow.\n\n", OriginalVenue="Tides Today"),
        paper('A "quoted" title, with commas', "Short: .. and - dashed -1 text", Date=-1, JournalDisplayName="J. Tides"),
        paper(ODD, ODD, ConferenceSeriesDisplayName="TIDECON", ConferenceInstancesDisplayName="TIDECON 2014"),
        paper("Locks", "\n", ConferenceInstancesDisplayName="LOCKS 2013"),
        paper("Nothing known", "", OriginalVenue="-1", Date="-1"),
        paper(NAN, "title is missing", OriginalVenue="arXiv - Physics"),
    ]
    affiliated, cites, topic, writes = range(4)
    edges = [
        (authors[0], institutions[2], affiliated), (authors[0], institutions[0], affiliated),
        (authors[1], institutions[1], affiliated), (authors[3], institutions[0], affiliated),
        (authors[3], institutions[1], affiliated), (authors[5], institutions[0], affiliated),
        (papers[0], papers[1], cites), (papers[1], papers[0], cites), (papers[0], papers[2], cites),
        (papers[2], papers[5], cites), (papers[3], papers[2], cites), (papers[3], papers[2], cites),
        (papers[0], fields[0], topic), (papers[0], fields[1], topic), (papers[1], fields[1], topic),
        (papers[2], fields[2], topic), (papers[2], fields[0], topic),
    ]
    edges += [(author, papers[0], writes) for author in authors]
    edges += [(authors[2], papers[1], writes), (authors[0], papers[3], writes)]
    edge_index, edge_types = tensors(edges)
    # Papers are not stored in the order of their ids.
    order = [i for i in nodes if i not in papers] + [papers[i] for i in (3, 0, 5, 1, 2, 4)]
    files = {
        "node_info": {i: nodes[i] for i in order},
        "edge_index": edge_index,
        "edge_types": edge_types,
        "node_types": torch.tensor(types_of),
    }
    save_files(out / "processed", **files)
    (out / "schema").mkdir()
    make = lambda **options: MagSKB(root=str(out), download_processed=False, **options)
    make()
    for cache in ("mag_cache", "paper100M_cache"):
        (out / "processed" / cache / "left.tsv").write_text("mag_id\ttitle\tabstract\n")
    return make


# ---------------------------------------------------------------- prime


def prime(out, PrimeSKB, save_files):
    kinds = PrimeSKB.NODE_TYPES
    nodes, types_of = {}, []

    def add(kind, name, source="NCBI", details=None, **more):
        node_id = len(nodes)
        nodes[node_id] = {"id": str(9000 + node_id), "type": kind, "name": name, "source": source, **more}
        if details is not None:
            nodes[node_id]["details"] = details
        types_of.append(kinds.index(kind))
        return node_id

    gene = {
        "_id": "7", "_version": 1, "query": "PHYHIP", "entrez_id": 7, "name": "tide homeobox 1",
        "summary": "Makes - tides.\nSecond line.", "type_of_gene": "protein-coding", "alias": ["TD1", "T'D\"2", ODD],
        "other_names": "tidal", "genomic_pos": [{"chr": "8", "start": 22219703, "strand": -1}, {"chr": "CHR_ALT", "start": 1}],
        "generif": [{"pubmed": 1, "text": "first  finding"}, {"pubmed": 2, "text": "second; finding"}],
        "interpro": [{"desc": "Tide domain", "id": "IPR1"}, {"desc": "Lock - 'domain'", "id": "IPR2"}],
        "taxid": 9606,
    }
    one = {**gene, "genomic_pos": {"chr": "8", "start": 1}, "interpro": {"desc": "single", "id": "IPR3"}, "alias": "TD2",
           "summary": NAN, "generif": [], "other_names": ""}
    numbers = {
        "int": 2**63 - 1, "zero": -0.0, "small": 1e-05, "large": 1e16, "exact": 123456789.125, "third": 1 / 3,
        "inf": float("inf"), "yes": True, "none": None, "list": [1, 2.0, "a", None, False, NAN, -1e-7, 1e22],
        "tuple": (1,), "pair": ("a", 'b"c'), "empty_list": [], "empty_dict": {}, "np": np.float64(2.5), "npint": np.int64(7),
        "npbool": np.bool_(True), "npstr": np.str_("numpy's"), "bytes_free": "x\x00y\x7f\u00ad\ue000\U000e0001",
        "nested": {"a": {"b": [{"c": ODD}]}, "gone": NAN, "empty": ""}, "text": "nan", "_private": "p", "some_id": 4,
    }
    disease = {"mondo_id": 8019, "mondo_name": "tide fever", "group_id_bert": NAN, "mondo_definition": "A fever.\nWith \r lines: .",
               "umls_description": NAN, "orphanet_prevalence": "1-9/100000"}
    genes = [add("gene/protein", "TIDE1", details=gene), add("gene/protein", "TIDE2", details=one),
             add("gene/protein", "TIDE3", details={"_id": "x", "query_id": "y", "summary": NAN}), add("gene/protein", "TIDE4")]
    diseases = [add("disease", "tide fever", "MONDO_grouped", details=disease), add("disease", "lock jaw (severe)", "MONDO")]
    drugs = [add("drug", "Tidol", "DrugBank", details={"description": "Calms tides.", "half_life": "The half-life is 1.5 - 2 h\n", "atc_4": NAN,
                                                         "name": "kept as it is"}),
             add("drug", "Mixture, the", "DrugBank", details=numbers)]
    others = [add(kind, name, "GO", details=details) for kind, name, details in [
        ("molecular_function", "tide binding", {"goTerm": {"id": "GO:1", "xrefs": ["a"]}}), ("pathway", "Tidal pathway", {"name": ["Tidal pathway"], "goBiologicalProcess": [{"x": 1}]}),
        ("anatomy", "tidal pool", None), ("effect/phenotype", "Wet feet", None), ("biological_process", "ebbing", {}),
        ("cellular_component", "tide gate", {"definition": "a gate"}), ("exposure", "Salt", None)]]
    function, pathway, anatomy, effect, process, component, exposure = others
    rel = {name: i for i, name in enumerate(PrimeSKB.RELATION_TYPES)}
    pairs = [
        (genes[0], genes[1], "ppi"), (genes[0], genes[3], "ppi"), (genes[1], genes[2], "ppi"),
        (drugs[0], genes[0], "target"), (drugs[0], genes[0], "enzyme"), (drugs[1], genes[2], "carrier"),
        (drugs[0], diseases[0], "indication"), (drugs[1], diseases[1], "contraindication"), (drugs[0], diseases[1], "off-label use"),
        (drugs[0], drugs[1], "synergistic interaction"), (diseases[0], genes[1], "associated with"),
        (diseases[0], diseases[1], "parent-child"), (diseases[0], effect, "phenotype present"), (diseases[1], effect, "phenotype absent"),
        (drugs[0], effect, "side effect"), (exposure, diseases[0], "linked to"), (anatomy, genes[0], "expression present"),
        (anatomy, genes[1], "expression absent"), (genes[3], effect, "associated with"),
        # Neighbours of several types in one relation, in the order in which a Python set gives them.
        (genes[0], function, "interacts with"), (genes[0], pathway, "interacts with"), (genes[0], process, "interacts with"),
        (genes[0], component, "interacts with"),
        (genes[1], function, "interacts with"), (genes[1], pathway, "interacts with"), (genes[1], process, "interacts with"),
        (genes[1], component, "interacts with"), (genes[1], exposure, "interacts with"),
        (exposure, diseases[1], "interacts with"), (exposure, component, "interacts with"), (exposure, process, "interacts with"),
        (component, genes[3], "parent-child"), (component, exposure, "parent-child"), (component, diseases[0], "parent-child"),
        (component, drugs[0], "parent-child"), (function, genes[3], "linked to"), (function, exposure, "linked to"),
        (process, component, "linked to"), (process, diseases[1], "linked to"), (genes[0], genes[0], "linked to"),
    ]
    edges = []
    for head, tail, name in pairs:
        edges += [(head, tail, rel[name]), (tail, head, rel[name])]
    edges += edges[:2]  # Written twice.
    edge_index, edge_types = tensors(edges)
    order = list(nodes)
    random.Random(5).shuffle(order)
    files = {
        "node_info": {i: nodes[i] for i in order},
        "edge_index": edge_index,
        "edge_types": edge_types,
        "edge_type_dict": dict(enumerate(PrimeSKB.RELATION_TYPES)),
        "node_types": torch.LongTensor(types_of),
        "node_type_dict": dict(enumerate(kinds)),
    }
    save_files(out / "processed", **files)
    return lambda **options: PrimeSKB(root=str(out), download_processed=False, **options)


# ---------------------------------------------------------------- common


def tensors(edges):
    return torch.LongTensor([[e[0] for e in edges], [e[1] for e in edges]]), torch.LongTensor([e[2] for e in edges])


def graph(base):
    nodes = range(len(base.node_info))
    relations = base.rel_type_lst()
    return {
        "neighbors": {name: [base.get_neighbor_nodes(i, name) for i in nodes] for name in ["*", *relations]},
        "tuples": [list(t) for t in base.get_tuples()],
        "num_edges": base.num_edges(),
    }


def golden(make):
    base = make()
    nodes = range(len(base.node_info))

    def tried(call):
        try:
            return call()
        except AttributeError:  # The reference has no answer.
            return None

    variants = {"plain": (False, False), "compact": (False, True), "relations": (True, False), "both": (True, True)}
    return {
        "documents": {
            name: [tried(lambda: base.get_doc_info(i, add_rel=rel, compact=compact)) for i in nodes]
            for name, (rel, compact) in variants.items()
        },
        "relations": [tried(lambda: base.get_rel_info(i)) for i in nodes],
        "types": [base.get_node_type_by_id(i) for i in nodes],
        "candidates": base.candidate_ids,
        "merged": graph(base),
        "stored": graph(make(indirected=False)),
    }


def queries(out, candidates, n, n_test, with_tenth):
    """Queries in the manner of the benchmark: ids out of order, a line end, repeated answers."""
    draw = random.Random(7)
    folder = out / "stark_qa"
    folder.mkdir()
    ids = list(range(n))
    draw.shuffle(ids)
    with open(folder / "stark_qa.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["id", "query", "answer_ids"])
        for i in ids:
            answers = draw.choices(candidates, k=1 + i % 3)
            text = f"which one,\nof these: {i}" if i % 5 == 0 else f'query "{i}"'
            writer.writerow([i, text, str(answers)])
    with open(folder / "stark_qa_human_generated_eval.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["id", "query", "answer_ids", "answer_ids_source"])
        for i in range(3):
            writer.writerow([i, f"human query {i}", str(draw.choices(candidates, k=2)), "by hand"])
    splits = out / "split"
    splits.mkdir()
    draw.shuffle(ids)
    test, val, train = ids[:n_test], ids[n_test : n_test + 3], ids[n_test + 3 :]
    parts = {"train": train, "val": val, "test": test}
    if with_tenth:
        parts["test-0.1"] = test[-2:]  # Not the prefix, so that it shows which one was taken.
    for name, part in parts.items():
        (splits / f"{name}.index").write_text("\n".join(map(str, part)))


def python_text():
    draw = random.Random(11)
    floats = [0.0, -0.0, 1.0, 1e15, 1e16, 123456789012345680.0, 1e-4, 1e-5, 0.1, 1 / 3, 5e-324, 1.7976931348623157e308,
              NAN, math.inf, -math.inf, 2.0**53, 1e22, 1e23, 9007199254740993.0, 100000.0, 12345.678e-10]
    floats += [struct.unpack("<d", struct.pack("<Q", draw.getrandbits(64)))[0] for _ in range(200)]
    floats += [round(draw.uniform(-1000, 1000), draw.randrange(6)) for _ in range(100)]
    alphabet = ["'", '"', "\\", "\n", "\r", "\t", "\x00", "\x1b", "\x7f", "\x85", "\xa0", "\xad", "a", "é", "\u0301", "\u200b", "\u2028",
                "\u3000", "\ue000", "\ufeff", "\uffff", "漢", "🚲", "\U000e0001", "\U0010ffff", " "]
    strings = ["".join(draw.choices(alphabet, k=draw.randrange(6))) for _ in range(200)]
    kinds = [("Cn" if unicodedata.category(chr(c)) == "Cn" else "escaped" if not chr(c).isprintable() else "printed")
             for c in range(0x110000)]
    runs = {"printed": [], "escaped": []}
    for c, kind in enumerate(kinds):
        if kind == "Cn" or 0xD800 <= c < 0xE000:
            continue
        if runs[kind] and runs[kind][-1][1] == c - 1:
            runs[kind][-1][1] = c
        else:
            runs[kind].append([c, c])
    return {
        "unicode": unicodedata.unidata_version,
        "floats": [[f"{struct.unpack('<Q', struct.pack('<d', x))[0]:016x}", repr(x)] for x in floats],
        "strings": [[text, repr(text)] for text in strings],
        **runs,
    }


def main():
    target = Path(sys.argv[1])
    AmazonSKB, MagSKB, PrimeSKB, save_files, df_row_to_dict = load_reference()
    target.mkdir(parents=True, exist_ok=True)
    makers = {
        "amazon": lambda out: amazon(out, AmazonSKB, save_files, df_row_to_dict),
        "mag": lambda out: mag(out, MagSKB, save_files),
        "prime": lambda out: prime(out, PrimeSKB, save_files),
    }
    for name, maker in makers.items():
        out = target / name
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        result = golden(maker(out))
        for folder in ("raw", "schema"):  # Wanted by the reference, not by its data.
            shutil.rmtree(out / folder, ignore_errors=True)
        if name != "mag":  # As the benchmark packs it.
            shutil.make_archive(out / "processed", "zip", out, "processed")
        with open(out / "golden.json", "w") as file:
            json.dump(result, file, ensure_ascii=False, separators=(",", ":"))
        queries(out, result["candidates"], 30, 20, name == "amazon")
    with open(target / "python.json", "w") as file:
        json.dump(python_text(), file, separators=(",", ":"))


if __name__ == "__main__":
    main()
