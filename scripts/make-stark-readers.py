"""Writes the pickles and torch files of tests/data/stark/readers, with Python's own libraries.

    pip install numpy torch
    python scripts/make-stark-readers.py tests/data/stark/readers
"""

import collections
import pathlib
import pickle
import sys

import numpy as np
import torch

out = pathlib.Path(sys.argv[1])
shared = "shared text"
value = {
    "plain": [None, True, False, 0, -1, 255, 256, 65536, 2**31, 2**63 - 1, -(2**63)],
    "floats": [0.5, -0.0, float("inf"), 1e300],
    "nan": float("nan"),
    "text": ["", "naïve ☃ 😀", "line\nfeed \\u0041 back\\slash", "x" * 260],
    "bytes": [b"", b"\x00\xff\n", bytearray(b"abc")],
    "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
    "sets": [set(), {1}, frozenset([2])],
    "ordered": collections.OrderedDict([("b", 1), ("a", 2)]),
    "default": collections.defaultdict(list, {"k": [1]}),
    "shared": [shared, shared, [shared]],
    7: {"nested": {"deep": [{}, [], ()]}},
    "scalars": [
        np.int64(-5), np.uint8(7), np.float32(0.25), np.float16(2.5), np.bool_(True),
        np.str_("ab☃"),
    ],
    "arrays": [
        np.arange(6).reshape(2, 3),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.array([1.5, 2.5], dtype=">f4"),
        np.array(["o", None], dtype=object),
        np.zeros((0, 3)),
        np.array(7),
    ],
}
for protocol in range(6):
    (out / f"values-{protocol}.pkl").write_bytes(pickle.dumps(value, protocol))

numbers = torch.arange(6).reshape(2, 3)
torch.save(numbers, out / "numbers.pt")
torch.save(numbers.t(), out / "transposed.pt")
torch.save(torch.tensor([True, False]), out / "bool.pt")
torch.save(numbers, out / "legacy.pt", _use_new_zipfile_serialization=False)
rows = torch.tensor([[0.5, -2.0], [1.0, 0.25]])
torch.save({10: rows[:1], 20: rows[1:], 30: rows.bfloat16()}, out / "rows.pt")
