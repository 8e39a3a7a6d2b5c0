"""What sentence-transformers needs to embed texts of 64 word pieces, together and one by one."""
import math
import os

import numpy as np
from sentence_transformers import SentenceTransformer

from common import SEED, arguments, measure

WORDS = ('river stone paper light market garden doctor window summer engine music forest '
         'planet silver bridge winter letter kitchen animal school').split()

work, directory = arguments('WORK MODEL')
place = os.path.join(work, 'texts.txt')
if not os.path.exists(place):
    random = np.random.default_rng(SEED)
    with open(place, 'w') as file:
        file.writelines(' '.join(random.choice(WORDS, 62)) + '\n' for _ in range(128))
with open(place) as lines:
    texts = lines.read().splitlines()
model = SentenceTransformer(directory, device='cpu')


def embed(some):
    return model.encode(some, batch_size=32, normalize_embeddings=True, show_progress_bar=False)


weights = np.array([math.cos(at) for at in range(1, embed(texts[:1]).shape[1] + 1)])
probe = float((embed(texts) @ weights).mean())
measure('embed', len(texts), lambda: embed(texts), probe=probe)
measure('embed_query', 40, lambda: [embed([text]) for text in texts[:40]], probe=probe)
