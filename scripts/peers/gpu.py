"""What PyTorch and sentence-transformers need on a CUDA device for the work of `benches/` there."""
import os

import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer

from common import arguments, measure

work, model = arguments('WORK MODEL')


def timed(name, n, run, **more):
    def synchronised():
        run()
        torch.cuda.synchronize()
    synchronised()
    measure(name, n, synchronised, device=torch.cuda.get_device_name(), **more)


for dim in (384, 1536):
    file = load_file(os.path.join(work, f'dense-{dim}.safetensors'), device='cuda')
    rows, queries = file['rows'].half(), file['queries'].half()
    timed('dense', 20, lambda: [torch.topk(rows @ query, 100) for query in queries[:20]],
          rows=len(rows), dim=dim, peer='torch f16')
    timed('dense_batch', len(queries), lambda: torch.topk(queries @ rows.T, 100),
          rows=len(rows), dim=dim, peer='torch f16')

with open(os.path.join(work, 'texts-gpu.txt')) as lines:
    texts = lines.read().splitlines()
encoder = SentenceTransformer(model, device='cuda', model_kwargs=dict(torch_dtype=torch.float16))
timed('embed', len(texts),
      lambda: encoder.encode(texts, batch_size=512, normalize_embeddings=True, show_progress_bar=False),
      peer='sentence-transformers f16')
