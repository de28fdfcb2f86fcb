"""Golden values of attention: writes attention.json beside this file.

Run in a virtual environment with torch==2.13.0 and numpy. The inputs are formulas that the test repeats.
"""

import datetime
import json
import math
import pathlib

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention


def values(i, *shape):
    j = np.arange(math.prod(shape), dtype=np.uint64)
    x = (j * 2654435761 + i * 40503) & 0xFFFFFFFF
    x ^= x >> np.uint64(15)
    x = (x * 2246822519) & 0xFFFFFFFF
    x = ((x >> np.uint64(25)).astype(np.float64) - 64) / 32
    return torch.tensor(x.reshape(shape), dtype=torch.float64)


def case(n, H, K, E):
    scale = float(np.float32(1 / math.sqrt(E)))
    q, k, v, dout = values(0, n, H, E), values(1, n, K, E), values(2, n, K, E), values(3, n, H, E)
    for x in (q, k, v):
        x.requires_grad_()
    out = scaled_dot_product_attention(
        q.transpose(0, 1)[None], k.transpose(0, 1)[None], v.transpose(0, 1)[None],
        is_causal=True, scale=scale, enable_gqa=True,
    )[0].transpose(0, 1)
    out.backward(dout)
    scores = torch.einsum("ihe,jhe->ihj", q, k.repeat_interleave(H // K, 1)) * scale
    scores = scores.masked_fill(~torch.ones(n, n, dtype=torch.bool).tril()[:, None], -math.inf)
    lse = scores.logsumexp(-1) / math.log(2)
    flat = lambda x: [float(f"{y:.8g}") for y in x.detach().flatten().tolist()]
    return dict(n=n, h=H, k=K, e=E, out=flat(out), lse=flat(lse), dq=flat(q.grad), dk=flat(k.grad), dv=flat(v.grad))


golden = dict(
    made=datetime.date.today().isoformat(), torch=torch.__version__, numpy=np.__version__,
    cases=[case(17, 4, 2, 16), case(5, 5, 1, 32)],
)
pathlib.Path(__file__).with_name("attention.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")
