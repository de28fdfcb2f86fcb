"""Golden losses and gradients of the algorithms, by torch autograd in float64, from their papers' formulas.

In a virtual environment with torch==2.13.0:  python gen_algorithms.py > algorithms.json
"""
import datetime
import json

import torch

torch.manual_seed(20261129)
LOW, HIGH, DUAL, COEF = 0.2, 0.28, 3.0, 0.3


def surrogate(r, a):
    return torch.maximum(-r * a, -r.clamp(1 - LOW, 1 + HIGH) * a)


def grpo(new, old, adv, ref):
    return surrogate((new - old).exp(), adv)


def dual(new, old, adv, ref):
    loss = grpo(new, old, adv, ref)
    return torch.where(adv < 0, torch.minimum(loss, -DUAL * adv), loss)


def gspo(new, old, adv, ref):
    s = (new - old).mean().exp()
    return surrogate(s.expand_as(adv), adv)


def cispo(new, old, adv, ref):
    return -(new - old).exp().clamp(1 - LOW, 1 + HIGH).detach() * adv * new


def kl(kind):
    def loss(new, old, adv, ref):
        d = ref - new
        k = {"k1": -d, "k2": d * d / 2, "k3": d.exp() - 1 - d}[kind]
        return grpo(new, old, adv, ref) + COEF * k
    return loss


cases = []
for name, f in {"grpo": grpo, "dual": dual, "gspo": gspo, "cispo": cispo, "k1": kl("k1"), "k2": kl("k2"), "k3": kl("k3")}.items():
    for n in (1, 2, 7, 30):
        for spread in (0.05, 0.6):
            new = (-torch.rand(n) * 3).float().double().requires_grad_()
            old = (new + spread * torch.randn(n)).detach().float().double()
            ref = (new + spread * torch.randn(n)).detach().float().double()
            adv = (torch.randn(1).expand(n) if name == "gspo" else torch.randn(n)).float().double()
            loss = f(new, old, adv, ref).sum()
            loss.backward()
            cases.append({"name": name, "new": new.tolist(), "old": old.tolist(), "ref": ref.tolist(), "adv": adv.tolist(),
                          "loss": loss.item(), "grad": new.grad.tolist()})

groups = []
for g in (2, 3, 8):
    r = torch.randn(4, g).float().double()
    loo = r - (r.sum(1, keepdim=True) - r) / (g - 1)
    groups.append({
        "rewards": r.tolist(),
        "grpo": ((r - r.mean(1, keepdim=True)) / (r.std(1, keepdim=True) + 1e-6)).tolist(),
        "dr_grpo": (r - r.mean(1, keepdim=True)).tolist(),
        "rloo": loo.tolist(),
        "reinforce++": ((r - r.mean()) / (r.std() + 1e-6)).tolist(),
    })

print(json.dumps({"date": str(datetime.date.today()), "torch": torch.__version__,
                  "low": LOW, "high": HIGH, "dual": DUAL, "coef": COEF, "cases": cases, "groups": groups}))
