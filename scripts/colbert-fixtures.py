#!/usr/bin/env python3
"""Writes the tiny random ColBERT checkpoint of tests/data/colbert, with the vectors of the reference.

Needs numpy and tokenizers. The computation follows the code of colbert-ai 0.2 and of the BERT of
transformers, in double precision: no other part of it is taken. The weights are random but seeded.
Run from the repository's root:

    python3 scripts/colbert-fixtures.py tests/data/colbert

`golden.json` holds queries and documents, their ids and masks, and the vectors of their tokens.
"""

import json
import math
import pathlib
import string
import struct
import sys

import numpy as np
from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.models import WordPiece

PIECES = (
    "[PAD] [unused0] [unused1] [UNK] [CLS] [SEP] [MASK] the a of steel dart node red blood cell w "
    "light house water music . , ! - ( ) é ##s ##in ##ase kin ##et ##ic".split()
    + list("0123456789")
    + [f"##{digit}" for digit in range(10)]
)
HIDDEN, LAYERS, HEADS, INNER, POSITIONS, DIM = 32, 2, 2, 48, 40, 24
METADATA = dict(query_maxlen=12, doc_maxlen=30, dim=DIM, attend_to_mask_tokens=False, mask_punctuation=True)
QUERIES = ["steel dart", "the music of water, red!", "w7 w13 w40 w41 light house kinase cell"]
DOCUMENTS = [
    "The steel dart (red).",
    "Kinases, kinetic - unknownword! the MÚSIC of water",
    "é",
    " ".join(["light house, water 1 2 3 of the red blood cell."] * 5),
    "...",
]


def weights(rng):
    """The tensors of a checkpoint under their published names."""
    def tensor(*shape, scale=0.5, mean=0.0):
        return (mean + scale * rng.standard_normal(shape)).astype(np.float16)

    found = {
        "linear.weight": tensor(DIM, HIDDEN),
        "bert.embeddings.word_embeddings.weight": tensor(len(PIECES), HIDDEN),
        "bert.embeddings.position_embeddings.weight": tensor(POSITIONS, HIDDEN),
        "bert.embeddings.token_type_embeddings.weight": tensor(2, HIDDEN),
    }
    def norm(name):
        found[f"{name}.weight"] = tensor(HIDDEN, scale=0.3, mean=1.0)
        found[f"{name}.bias"] = tensor(HIDDEN, scale=0.3)

    norm("bert.embeddings.LayerNorm")
    for layer in range(LAYERS):
        prefix = f"bert.encoder.layer.{layer}"
        for name, outputs, inputs in [
            ("attention.self.query", HIDDEN, HIDDEN),
            ("attention.self.key", HIDDEN, HIDDEN),
            ("attention.self.value", HIDDEN, HIDDEN),
            ("attention.output.dense", HIDDEN, HIDDEN),
            ("intermediate.dense", INNER, HIDDEN),
            ("output.dense", HIDDEN, INNER),
        ]:
            found[f"{prefix}.{name}.weight"] = tensor(outputs, inputs)
            found[f"{prefix}.{name}.bias"] = tensor(outputs, scale=0.3)
        norm(f"{prefix}.attention.output.LayerNorm")
        norm(f"{prefix}.output.LayerNorm")
    return found


def save(path, tensors):
    """Writes a safetensors file of 16-bit tensors."""
    header, data = {}, b""
    for name, tensor in sorted(tensors.items()):
        end = len(data) + tensor.nbytes
        header[name] = dict(dtype="F16", shape=tensor.shape, data_offsets=[len(data), end])
        data += tensor.tobytes()
    header = json.dumps(header).encode()
    header += b" " * (-len(header) % 8)
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)


class Reference:
    """The checkpoint as colbert-ai runs it."""

    def __init__(self, tensors, tokenizer):
        self.tensors = {name.removeprefix("bert."): t.astype(np.float64) for name, t in tensors.items()}
        self.tokenizer = tokenizer
        encode = lambda symbol: tokenizer.encode(symbol, add_special_tokens=False).ids[0]
        unknown = PIECES.index("[UNK]")
        self.skiplist = {i for i in map(encode, string.punctuation) if i != unknown}

    def linear(self, name, rows):
        return rows @ self.tensors[f"{name}.weight"].T + self.tensors[f"{name}.bias"]

    def norm(self, name, rows):
        centred = rows - rows.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return scaled * self.tensors[f"{name}.weight"] + self.tensors[f"{name}.bias"]

    def bert(self, ids, mask):
        embeddings = lambda name: self.tensors[f"embeddings.{name}_embeddings.weight"]
        rows = embeddings("word")[ids] + embeddings("position")[: len(ids)] + embeddings("token_type")[0]
        rows = self.norm("embeddings.LayerNorm", rows)
        erf = np.vectorize(math.erf)
        for layer in range(LAYERS):
            at = f"encoder.layer.{layer}"
            heads = lambda name: self.linear(f"{at}.attention.self.{name}", rows).reshape(
                len(ids), HEADS, -1
            ).transpose(1, 0, 2)
            query, key, value = map(heads, ("query", "key", "value"))
            scores = query @ key.transpose(0, 2, 1) / np.sqrt(HIDDEN / HEADS)
            scores = np.where(np.array(mask, bool), scores, -np.inf)
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            shares /= shares.sum(-1, keepdims=True)
            attended = (shares @ value).transpose(1, 0, 2).reshape(len(ids), HIDDEN)
            attended = self.linear(f"{at}.attention.output.dense", attended)
            rows = self.norm(f"{at}.attention.output.LayerNorm", rows + attended)
            inner = self.linear(f"{at}.intermediate.dense", rows)
            inner = inner * 0.5 * (1 + erf(inner / np.sqrt(2)))
            rows = self.norm(f"{at}.output.LayerNorm", rows + self.linear(f"{at}.output.dense", inner))
        return rows

    def vectors(self, ids, mask, skipped):
        kept = [at for at, i in enumerate(ids) if i not in skipped]
        rows = (self.bert(ids, mask) @ self.tensors["linear.weight"].T)[kept]
        return rows / np.linalg.norm(rows, axis=-1, keepdims=True)

    def tensorize(self, text, marker, length):
        """A placeholder before the text becomes the marker, as in colbert-ai."""
        self.tokenizer.enable_truncation(length)
        ids = self.tokenizer.encode(". " + text).ids
        ids[1] = PIECES.index(marker)
        return ids

    def query(self, text):
        length = METADATA["query_maxlen"]
        ids = self.tensorize(text, "[unused0]", length)
        mask = [1] * len(ids) + [0] * (length - len(ids))
        ids += [PIECES.index("[MASK]")] * (length - len(ids))
        return dict(text=text, ids=ids, mask=mask, rows=self.vectors(ids, mask, set()))

    def document(self, text):
        ids = self.tensorize(text, "[unused1]", METADATA["doc_maxlen"])
        mask = [1] * len(ids)
        return dict(text=text, ids=ids, mask=mask, rows=self.vectors(ids, mask, self.skiplist))


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(WordPiece({piece: i for i, piece in enumerate(PIECES)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(strip_accents=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, PIECES.index(name)) for name in ("[CLS]", "[SEP]")],
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    tensors = weights(np.random.default_rng(5))
    save(folder / "model.safetensors", tensors)
    config = dict(
        architectures=["HF_ColBERT"], model_type="bert", hidden_size=HIDDEN, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, intermediate_size=INNER, vocab_size=len(PIECES), hidden_act="gelu",
        max_position_embeddings=POSITIONS, type_vocab_size=2, layer_norm_eps=1e-12,
    )
    write = lambda name, value: (folder / name).write_text(json.dumps(value, indent=1) + "\n")
    write("config.json", config)
    write("artifact.metadata", METADATA)
    reference = Reference(tensors, tokenizer)
    queries = [reference.query(text) for text in QUERIES]
    documents = [reference.document(text) for text in DOCUMENTS]
    # MaxSim: for each query a score of each document.
    scores = [
        [(query["rows"] @ document["rows"].T).max(1).sum() for document in documents] for query in queries
    ]
    for text in queries + documents:
        text["rows"] = np.round(text["rows"], 6).tolist()
    golden = dict(queries=queries, documents=documents, scores=np.round(scores, 5).tolist())
    (folder / "golden.json").write_text(json.dumps(golden, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
