#!/usr/bin/env python3
"""Embedding by peers, for `scripts/bench-embed.sh`: one thread, CPU seconds.

    python3 scripts/peers/encoder.py MODEL PEER REPEATS TEXTS...

MODEL is a directory of a BERT sentence encoder, PEER `onnxruntime`, `sentence-transformers` or
`transformers-bf16`; every file of TEXTS has one text a line. Prints one JSON line per file, and one for a
query of 16 tokens: tokens a CPU second (special tokens counted, padding not), best of REPEATS. The ONNX
graph is built from the model's weights; onnxruntime fuses it at load, as it does with an exported one.
"""

import json
import os
import sys
import tempfile
import time

os.environ.update(OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
import numpy as np

BATCH = 32
QUERY = "system model query graph product medicine gene protein water house light music paper story"


def graph(folder, path):
    """The encoder as an ONNX graph: ids and mask of `[batch, length]` to rows `[batch, length, hidden]`."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from safetensors.numpy import load_file

    config = json.load(open(os.path.join(folder, "config.json")))
    assert config["hidden_act"] == "gelu"
    weights = {k: v.astype(np.float32) for k, v in load_file(os.path.join(folder, "model.safetensors")).items()
               if k.startswith(("embeddings.", "encoder.")) and v.dtype != np.int64}
    heads, hidden = config["num_attention_heads"], config["hidden_size"]
    head = hidden // heads
    nodes, constants = [], {}

    def constant(name, value):
        constants[name] = numpy_helper.from_array(np.asarray(value), name)
        return name

    def node(kind, *inputs, **attributes):
        name = f"{kind}{len(nodes)}"
        nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def linear(x, name):
        weight = constant(f"{name}.weight", np.ascontiguousarray(weights[f"{name}.weight"].T))
        return node("Add", node("MatMul", x, weight), constant(f"{name}.bias", weights[f"{name}.bias"]))

    def norm(x, name):
        parts = [constant(f"{name}.{p}", weights[f"{name}.{p}"]) for p in ("weight", "bias")]
        return node("LayerNormalization", x, *parts, axis=-1, epsilon=config["layer_norm_eps"])

    table = lambda name: constant(name, weights[f"embeddings.{name}.weight"])
    length = node("Slice", node("Shape", "ids"), constant("one", np.array([1])), constant("two", np.array([2])))
    positions = node("Slice", table("position_embeddings"), constant("zero", np.array([0])), length)
    kinds = constant("kind", weights["embeddings.token_type_embeddings.weight"][0])
    x = node("Add", node("Add", node("Gather", table("word_embeddings"), "ids"), kinds), positions)
    x = norm(x, "embeddings.LayerNorm")
    outer = node("Unsqueeze", node("Cast", "mask", to=TensorProto.FLOAT), constant("axes", np.array([1, 2])))
    bias = node("Mul", node("Sub", constant("1", np.float32(1)), outer), constant("far", np.float32(-1e9)))
    split = constant("split", np.array([0, 0, heads, head]))
    join = constant("join", np.array([0, 0, hidden]))
    for i in range(config["num_hidden_layers"]):
        name = f"encoder.layer.{i}"
        part = lambda which, perm: node(
            "Transpose", node("Reshape", linear(x, f"{name}.attention.self.{which}"), split), perm=perm)
        query, key, value = part("query", [0, 2, 1, 3]), part("key", [0, 2, 3, 1]), part("value", [0, 2, 1, 3])
        scores = node("Div", node("MatMul", query, key), constant("scale", np.float32(head**0.5)))
        shares = node("Softmax", node("Add", scores, bias), axis=-1)
        gathered = node("Reshape", node("Transpose", node("MatMul", shares, value), perm=[0, 2, 1, 3]), join)
        x = norm(node("Add", linear(gathered, f"{name}.attention.output.dense"), x),
                 f"{name}.attention.output.LayerNorm")
        inner = node("Gelu", linear(x, f"{name}.intermediate.dense"))
        x = norm(node("Add", linear(inner, f"{name}.output.dense"), x), f"{name}.output.LayerNorm")
    info = lambda name, kind, shape: helper.make_tensor_value_info(name, kind, shape)
    inputs = [info(name, TensorProto.INT64, ["batch", "length"]) for name in ("ids", "mask")]
    outputs = [info(x, TensorProto.FLOAT, ["batch", "length", hidden])]
    built = helper.make_graph(nodes, "encoder", inputs, outputs, list(constants.values()))
    model = helper.make_model(built, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(model, path)


def cut(folder):
    """Texts to batches of `(ids, mask)`, sorted by length so that little is padded."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)

    def batches(texts):
        ids = sorted((e.ids for e in tokenizer.encode_batch(texts)), key=len)
        for group in (ids[i : i + BATCH] for i in range(0, len(ids), BATCH)):
            padded = np.zeros((len(group), len(group[-1])), np.int64)
            mask = np.zeros_like(padded)
            for row, ids_of in enumerate(group):
                padded[row, : len(ids_of)], mask[row, : len(ids_of)] = ids_of, 1
            yield padded, mask

    return tokenizer, batches


def pool(rows, mask):
    mean = (rows * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)


def peer(name, folder):
    """A function that embeds texts, in any order."""
    _, batches = cut(folder)
    if name == "onnxruntime":
        import onnxruntime

        with tempfile.TemporaryDirectory() as temporary:
            path = os.path.join(temporary, "encoder.onnx")
            graph(folder, path)
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = options.inter_op_num_threads = 1
            session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
        return lambda texts: [
            pool(session.run(None, {"ids": ids, "mask": mask})[0], mask.astype(np.float32))
            for ids, mask in batches(texts)]
    import torch

    torch.set_num_threads(1)
    if name == "sentence-transformers":
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(folder, device="cpu")
        return lambda texts: model.encode(texts, batch_size=BATCH, show_progress_bar=False)
    assert name == "transformers-bf16", name
    from transformers import AutoModel

    model = AutoModel.from_pretrained(folder, dtype=torch.bfloat16).eval()

    def run(texts):
        with torch.inference_mode():
            for ids, mask in batches(texts):
                rows = model(torch.from_numpy(ids), torch.from_numpy(mask)).last_hidden_state
                pool(rows.float().numpy(), mask.astype(np.float32))

    return run


if __name__ == "__main__":
    folder, name, repeats, files = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]
    embed, tokenizer = peer(name, folder), cut(folder)[0]

    def best(texts, n):
        embed(texts[:BATCH])
        spent = []
        for _ in range(n):
            start = time.process_time()
            embed(texts)
            spent.append(time.process_time() - start)
        return spent

    for file in files:
        texts = open(file).read().splitlines()
        tokens = sum(len(e.ids) for e in tokenizer.encode_batch(texts))
        cpu = min(best(texts, repeats))
        print(json.dumps(dict(work="embed", peer=name, texts=os.path.basename(file), n=len(texts), tokens=tokens,
                              cpu=round(cpu, 4), tokens_per_cpu_s=round(tokens / cpu))), flush=True)
    cpu = best([QUERY], 200)
    print(json.dumps(dict(work="embed-query", peer=name, tokens=len(tokenizer.encode(QUERY).ids),
                          cpu_ms=round(sum(cpu) / len(cpu) * 1e3, 3))), flush=True)
