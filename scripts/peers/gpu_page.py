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

`scripts/gpu-check.sh` measured this on one {name}. Wall time of one piece of work, in microseconds; peers
are PyTorch and sentence-transformers with 16-bit floats on the same device. The unit tests of `gpu`,
`embed::bert` and `index::vectors` passed without and with the device before.

| work | dimensions | processor | device | peer on the device | peer / device |
| --- | ---: | ---: | ---: | ---: | ---: |''')
for key, peer in peers.items():
    mine, plain = device[key], processor[key]
    same = '' if mine.get('digest') == plain.get('digest') else ', **other results**'
    print(f"| {key[0]}{same} | {key[1] or ''} | {plain['wall_us']:.1f} | {mine['wall_us']:.1f} "
          f"| {peer['wall_us']:.1f} | {peer['wall_us'] / mine['wall_us']:.2f} |")
