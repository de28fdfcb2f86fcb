"""Golden values of linear, log-prob and the sampler's filters, from torch and transformers.

In a virtual environment with torch==2.13.0 and transformers==5.24.0:

    python gen_linear.py

writes linear.json beside this file. Inputs are rounded to float32; torch computes in float64, as a float32
implementation should come near to.
"""

import datetime
import json
import pathlib

import torch
import transformers
from torch.nn.functional import linear, log_softmax
from transformers import MinPLogitsWarper, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

torch.manual_seed(20260)


def normal(*shape, scale=1.0):
    return (torch.randn(*shape, dtype=torch.float64) * scale).float().double()


def flat(x):
    return [float(f"{y:.9g}") for y in x.detach().flatten().tolist()]


def product(T, N, K):
    x, w, dy = normal(T, K).requires_grad_(), normal(N, K).requires_grad_(), normal(T, N)
    y = linear(x, w)
    y.backward(dy)
    return dict(t=T, n=N, k=K, x=flat(x), w=flat(w), dy=flat(dy), y=flat(y), dx=flat(x.grad), dw=flat(w.grad))


def head(R, V, D, temperature):
    x, w = normal(R, D).requires_grad_(), normal(V, D).requires_grad_()
    target = torch.randint(V, (R,))
    dlogp, dentropy = normal(R), normal(R)
    inv = float(torch.tensor(1 / temperature, dtype=torch.float32))
    logps = log_softmax(linear(x, w) * inv, -1)
    logp = logps.gather(-1, target[:, None])[:, 0]
    entropy = -(logps.exp() * logps).sum(-1)
    ((logp * dlogp).sum() + (entropy * dentropy).sum()).backward()
    return dict(
        r=R, v=V, d=D, inv=inv, target=target.tolist(), x=flat(x), w=flat(w), dlogp=flat(dlogp), dentropy=flat(dentropy),
        logp=flat(logp), entropy=flat(entropy), dx=flat(x.grad), dw=flat(w.grad),
    )


def filtered(V, temperature, top_k, top_p, min_p):
    logits = normal(1, V, scale=2)
    scores = TemperatureLogitsWarper(temperature)(None, logits)
    if top_k:
        scores = TopKLogitsWarper(top_k)(None, scores)
    if top_p < 1:
        scores = TopPLogitsWarper(top_p)(None, scores)
    if min_p:
        scores = MinPLogitsWarper(min_p)(None, scores)
    kept = torch.isfinite(scores[0]).nonzero()[:, 0].tolist()
    return dict(logits=flat(logits), temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, kept=kept)


golden = dict(
    made=datetime.date.today().isoformat(),
    torch=torch.__version__,
    transformers=transformers.__version__,
    products=[product(3, 5, 33), product(17, 4, 6)],
    heads=[head(5, 28, 16, 1.0), head(3, 40, 7, 0.6)],
    filters=[
        filtered(30, T, k, p, m)
        for T, k, p, m in [
            (1.0, 0, 0.9, 0.0), (1.0, 0, 0.5, 0.0), (0.6, 20, 0.95, 0.0), (1.0, 5, 1.0, 0.0), (1.5, 0, 1.0, 0.1),
            (0.7, 20, 0.8, 0.05), (2.0, 10, 0.9, 0.3), (1.0, 1, 0.3, 0.9), (1.0, 3, 0.1, 0.0), (0.3, 0, 0.99, 0.01),
        ]
    ],
)
pathlib.Path(__file__).with_name("linear.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")
