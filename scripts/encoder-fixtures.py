#!/usr/bin/env python3
"""Writes the tiny random sentence encoders of tests/data/encoder, with the vectors that
sentence-transformers gives for them.

Needs torch, transformers, sentence-transformers and tokenizers. The weights are random but seeded; the
vocabulary is a few dozen pieces. Run from the repository's root:

    python3 scripts/encoder-fixtures.py [NAME ...] tests/data/encoder

Each folder is a model as Hugging Face and sentence-transformers lay it out, and beside its files
`golden.json`: texts, their vectors as documents and as queries, and the rows of the tokens of a few.

    python3 scripts/encoder-fixtures.py --golden MODEL

writes `golden.json` into the directory of any model, for 512 texts of 2 to 300 of its own words; then
`AGENT_MINILM_DIR=MODEL cargo test --release -p agent-embed real_model -- --nocapture` compares.
"""

import json
import pathlib
import random
import sys

import torch
import transformers
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.models import WordPiece
from transformers import PreTrainedTokenizerFast

PIECES = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] the a of gene protein drug causes binds red blood cell system "
    "query passage : , . ##s ##in ##ase kin ##et ##ic light house water 1 2 3 é music"
).split()
TEXTS = [
    "the gene causes a protein",
    "Kinases bind; kinase binds, kinetic!",
    "red  blood\tcell",
    "a",
    "unknownword [SEP] the MÚSIC of water",
    " ".join(["light house water 1 2 3 of the red blood cell system"] * 3),
    "écase é water",
    "the drug binds 123 proteins. the drug binds the protein in 3 2 1",
]
# What differs between the models: the configuration, the pooling, the modules and the type of the weights.
MODELS = {
    "mean": dict(config={}, pooling={"pooling_mode_mean_tokens": True}, normalize=True, length=20),
    "first": dict(
        config=dict(hidden_act="gelu_new", layer_norm_eps=1e-5),
        pooling={"pooling_mode_cls_token": True},
        normalize=True,
        prompts={"query": "query: ", "passage": "passage: "},
        dtype=torch.bfloat16,
    ),
    "plain": dict(
        config=dict(hidden_act="relu", num_attention_heads=1),
        pooling={"pooling_mode": "mean"},
        normalize=False,
        prompts={"query": "the query: "},
        dtype=torch.float16,
    ),
    # Other architectures, which the program runs with its feature `encoders`.
    "modernbert": dict(
        kind="ModernBert",
        config=dict(
            num_hidden_layers=3, local_attention=8, initializer_cutoff_factor=3.0,
            cls_token_id=2, sep_token_id=3, bos_token_id=2, eos_token_id=3,
        ),
        pooling={"pooling_mode_mean_tokens": True},
        normalize=True,
    ),
    "xlm-roberta": dict(
        kind="XLMRoberta",
        config=dict(max_position_embeddings=49, bos_token_id=2, eos_token_id=3),
        pooling={"pooling_mode_mean_tokens": True},
        normalize=True,
        prompts={"query": "query: ", "passage": "passage: "},
    ),
    "qwen3": dict(
        kind="Qwen3",
        config=dict(num_key_value_heads=1, head_dim=12),
        pooling={"pooling_mode_lasttoken": True},
        normalize=True,
        prompts={"query": "query: ", "document": ""},
        dtype=torch.bfloat16,
    ),
}


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def tokenizer(folder):
    """The pieces as a tokenizer with the padding and truncation that a model should not heed."""
    built = Tokenizer(WordPiece({piece: i for i, piece in enumerate(PIECES)}, unk_token="[UNK]"))
    built.normalizer = normalizers.BertNormalizer()
    built.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    built.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    names = dict(zip(("pad", "unk", "cls", "sep", "mask"), PIECES))
    fast = PreTrainedTokenizerFast(
        tokenizer_object=built, model_max_length=48, **{f"{k}_token": v for k, v in names.items()}
    )
    fast.save_pretrained(folder)
    file = folder / "tokenizer.json"
    value = json.loads(file.read_text())
    value["truncation"] = dict(max_length=6, strategy="LongestFirst", stride=0, direction="Right")
    value["padding"] = dict(
        strategy={"Fixed": 6}, direction="Right", pad_to_multiple_of=None, pad_id=0, pad_type_id=0,
        pad_token="[PAD]",
    )
    write(file, value)


def build(
    folder, seed, config, pooling, normalize, kind="Bert", length=None, prompts=None, dtype=torch.float32
):
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)
    shape = dict(
        vocab_size=len(PIECES), hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=48, max_position_embeddings=48, initializer_range=0.5, pad_token_id=0,
    )
    config = getattr(transformers, f"{kind}Config")(**(shape | config))
    head = dict(add_pooling_layer=False) if kind in ("Bert", "XLMRoberta") else {}
    model = getattr(transformers, f"{kind}Model")(config, **head)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias") or "norm" in name.lower():
                parameter.add_(torch.randn_like(parameter) * 0.3)
    model.to(dtype).save_pretrained(folder)
    tokenizer(folder)
    kinds = ["Transformer", "Pooling"] + ["Normalize"] * normalize
    paths = ["", "1_Pooling", "2_Normalize"]
    module = lambda i: dict(
        idx=i, name=str(i), path=paths[i], type=f"sentence_transformers.models.{kinds[i]}"
    )
    write(folder / "modules.json", [module(i) for i in range(len(kinds))])
    write(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": 32} | pooling)
    if length:
        write(folder / "sentence_bert_config.json", dict(max_seq_length=length, do_lower_case=False))
    if prompts:
        write(folder / "config_sentence_transformers.json", dict(prompts=prompts))


def words(folder):
    """512 texts of whole words of the model's vocabulary, as long as documents are: many short, few long."""
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    whole = sorted(word for word in vocabulary if word.isalpha() and len(word) > 1)
    random.seed(3)
    return [" ".join(random.choices(whole, k=int(2 * 150 ** (i / 511)))) for i in range(512)]


def golden(folder, texts):
    model = SentenceTransformer(
        str(folder), device="cpu", model_kwargs={"dtype": torch.float32}, local_files_only=True
    )
    unit = dict(normalize_embeddings=True, batch_size=1)
    tokens = []
    for text in texts[:8]:
        rows = model.encode(text, output_value="token_embeddings", prompt="", batch_size=1)
        own = rows[1:-1]
        tokens.append((own / own.norm(dim=1, keepdim=True)).tolist())
    digits = lambda value: [digits(v) for v in value] if isinstance(value, list) else round(value, 7)
    # The first of the names that encode_document looks for; it takes an empty default for the first.
    prompts = [p for n in ("document", "passage", "corpus") if (p := model.prompts.get(n))]
    value = dict(
        texts=texts,
        documents=model.encode(texts, prompt=(prompts + [""])[0], **unit).tolist(),
        queries=model.encode_query(texts, **unit).tolist(),
        tokens=tokens,
    )
    value = {k: v if k == "texts" else digits(v) for k, v in value.items()}
    (folder / "golden.json").write_text(json.dumps(value, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    out = pathlib.Path(sys.argv[-1])
    if sys.argv[1] == "--golden":
        golden(out, words(out))
        sys.exit()
    for seed, (name, options) in enumerate(MODELS.items()):
        if sys.argv[2:] and name not in sys.argv[1:-1]:
            continue
        build(out / name, seed, **options)
        golden(out / name, TEXTS)
