"""Writes docs/benchmarks/gpu.md from the measurements of scripts/gpu-check.sh."""
import json
import os

from common import arguments

work, = arguments('WORK')


def read(name):
    with open(os.path.join(work, name)) as lines:
        return {(figure['work'], figure.get('dim')): figure for figure in map(json.loads, lines)}


device, processor, peers = read('device'), read('processor'), read('peers')
name = next(iter(peers.values()))['device']
print(f'''# On a CUDA device

`scripts/gpu-check.sh` measured this on one {name} with 16 CPU cores. The unit tests of `gpu`, `embed::bert` and
`index::vectors` passed before, without and with the device.

- `dense` and `dense_batch`: the 100 nearest of 129,375 vectors for one query, and for each of 256 queries at a time.
  Answers of CPU and device are the same, bit for bit: the device proposes, the CPU scores its proposals again. The
  peer returns its 16-bit scores.
- `embed`: one text of 64 tokens of many, all-MiniLM-L6-v2, tokenization included.

Microseconds of wall time a query or text; peers are PyTorch and sentence-transformers with 16-bit floats on the same
device.

| work | dimensions | CPU | device | peer on the device | peer / device |
| --- | ---: | ---: | ---: | ---: | ---: |''')
for key, peer in peers.items():
    mine, plain = device[key], processor[key]
    same = '' if mine.get('digest') == plain.get('digest') else ', **other results**'
    print(f"| {key[0]}{same} | {key[1] or ''} | {plain['wall_us']:.1f} | {mine['wall_us']:.1f} "
          f"| {peer['wall_us']:.1f} | {peer['wall_us'] / mine['wall_us']:.2f} |")
print('''
To measure again, on a machine with a device, CUDA's libraries and PyTorch:

```sh
cargo bench --no-run --bench peers --bench embed                      # prints the paths of both
cargo test --release --no-run -p agent-embed -p agent-index           # prints the paths of the unit tests
scripts/gpu-check.sh PEERS EMBED EMBED_TESTS INDEX_TESTS MODEL
```

Without a driver, a device and CUDA's libraries everything runs on the CPU. `CUDA_VISIBLE_DEVICES=` keeps to the CPU
where there is a device. A device that fails at any step is given up with a warning; `AGENT_GPU=require` returns the
error. `tests/it/gpu.rs` checks this with libraries that fail at each step, and the kernels by an emulator on the CPU.''')
