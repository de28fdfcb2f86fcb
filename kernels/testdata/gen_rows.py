"""Golden values of the row-wise operations and the optimizer, from torch and transformers.

In a virtual environment with torch==2.13.0 and transformers==5.24.0:

    python gen_rows.py

Activations are computed in float64 (what a float32 implementation should come near to), AdamW in float32 (its order of
operations is what is compared). Inputs are rounded to float32 first.
"""

import datetime
import json

import torch
import transformers
from torch import nn
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm, apply_rotary_pos_emb

gen = torch.Generator().manual_seed(20250)
EPS = 1e-6


def normal(*shape):
    return torch.randn(*shape, generator=gen, dtype=torch.float32).double()


def flat(x):
    # Nine digits name a float32 and are far below any tolerance for the rest.
    return [float("%.9g" % v) for v in x.detach().double().flatten().tolist()]


def rmsnorm():
    T, D = 5, 24
    x, r, dout, dres = (normal(T, D) for _ in range(4))
    norm = Qwen3RMSNorm(D, eps=EPS)
    norm.double()
    norm.weight.data = normal(D)
    total = x + r
    s = total.clone().requires_grad_()
    # The module computes in float32 whatever comes in, so its formula is repeated in float64 and checked against it.
    out = norm.weight * (s * torch.rsqrt(s.pow(2).mean(-1, keepdim=True) + EPS))
    assert torch.allclose(out, norm(s), rtol=1e-5, atol=1e-5)
    out.backward(dout)
    return dict(T=T, D=D, eps=EPS, x=flat(x), r=flat(r), w=flat(norm.weight), dout=flat(dout), dres=flat(dres),
                out=flat(out), dx=flat(s.grad + dres), dw=flat(norm.weight.grad))


def qknormrope():
    T, H, K, E = 6, 4, 2, 16
    pos = torch.tensor([0, 1, 2, 3, 40, 41])
    N = 48
    inv = 1.0 / (1e4 ** (torch.arange(0, E, 2).double() / E))
    angle = torch.arange(N).double()[:, None] * inv
    # The tables are float32, as the operation takes them.
    cos, sin = angle.cos().float().double(), angle.sin().float().double()
    qkv = normal(T, H + 2 * K, E).requires_grad_()
    wq, wk = normal(E).requires_grad_(), normal(E).requires_grad_()
    dout = normal(T, H + 2 * K, E)

    def norm(x, w):
        return w * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS))

    q, k = norm(qkv[:, :H], wq), norm(qkv[:, H:H + K], wk)
    c = torch.cat([cos, cos], -1)[pos]
    s = torch.cat([sin, sin], -1)[pos]
    q, k = apply_rotary_pos_emb(q, k, c, s, unsqueeze_dim=1)
    out = torch.cat([q, k], 1)
    out.backward(dout[:, :H + K])
    dqkv = qkv.grad.clone()
    dqkv[:, H + K:] = dout[:, H + K:]
    return dict(T=T, H=H, K=K, E=E, N=N, eps=EPS, pos=pos.tolist(), cos=flat(cos), sin=flat(sin), qkv=flat(qkv),
                wq=flat(wq), wk=flat(wk), dout=flat(dout), out=flat(out), dqkv=flat(dqkv), dwq=flat(wq.grad),
                dwk=flat(wk.grad))


def swiglu():
    T, F = 4, 19
    x = normal(T, 2 * F).mul(3).requires_grad_()
    dout = normal(T, F)
    out = nn.functional.silu(x[:, :F]) * x[:, F:]
    out.backward(dout)
    return dict(T=T, F=F, x=flat(x), dout=flat(dout), out=flat(out), dx=flat(x.grad))


def embedding():
    V, D = 7, 5
    tokens = torch.tensor([3, 0, 3, 6, 3, 0])
    w = normal(V, D).requires_grad_()
    dout = normal(len(tokens), D)
    out = nn.functional.embedding(tokens, w)
    out.backward(dout)
    return dict(V=V, D=D, tokens=tokens.tolist(), w=flat(w), dout=flat(dout), out=flat(out), dw=flat(w.grad))


def adamw():
    runs = []
    for lr, betas, eps, decay in [(1e-3, (0.9, 0.95), 1e-8, 0.1), (0.1, (0.9, 0.999), 1e-8, 0.01), (1e-6, (0.9, 0.98), 1e-6, 0.0)]:
        w = nn.Parameter(normal(37).float())
        start = w.detach().clone()
        opt = torch.optim.AdamW([w], lr=lr, betas=betas, eps=eps, weight_decay=decay, foreach=False, fused=False)
        grads = []
        for step in range(4):
            w.grad = normal(37).float() * 10.0 ** (step - 2)
            grads.append(flat(w.grad))
            opt.step()
        state = opt.state[w]
        runs.append(dict(lr=lr, beta1=betas[0], beta2=betas[1], eps=eps, decay=decay, w0=flat(start), grads=grads,
                         w=flat(w), m=flat(state["exp_avg"]), v=flat(state["exp_avg_sq"])))
    return runs


def gradnorm():
    g = normal(3, 11)
    p = nn.Parameter(torch.zeros(3, 11, dtype=torch.float64))
    p.grad = g.clone()
    return dict(g=flat(g), norm=float(nn.utils.clip_grad_norm_([p], 1.0)), clipped=flat(p.grad))


with open("rows.json", "w") as f:
    json.dump(dict(date=datetime.date.today().isoformat(), torch=torch.__version__.split("+")[0],
                   transformers=transformers.__version__, rmsnorm=rmsnorm(), qknormrope=qknormrope(), swiglu=swiglu(),
                   embedding=embedding(), adamw=adamw(), gradnorm=gradnorm()), f)
    f.write("\n")
