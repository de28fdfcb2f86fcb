"""Golden values of importance weights, process rewards and distillation, by torch in float64 from their papers' formulas.

In a virtual environment with torch==2.13.0:  python gen_signals.py > signals.json
"""
import datetime
import json

import torch

torch.manual_seed(20261129)
LOW, HIGH, CAP, TASK, COEF = 0.2, 0.28, 2.0, 0.5, 0.7


def surrogate(r, a):
    return torch.maximum(-r * a, -r.clamp(1 - LOW, 1 + HIGH) * a)


def row(n, around=None, spread=0.0):
    x = -torch.rand(n) * 3 if around is None else around.detach() + spread * torch.randn(n)
    return x.float().double()


importance = []  # truncated importance sampling of the clipped surrogate, differentiated through the ratio alone
for n in (1, 2, 7, 30):
    for spread in (0.05, 1.0):
        new = row(n).requires_grad_()
        ours, theirs = row(n, new, 0.1), row(n, new, spread)
        adv = torch.randn(n).float().double()
        w = (ours - theirs).exp().clamp(max=CAP)
        loss = (w.detach() * surrogate((new - ours).exp(), adv)).sum()
        loss.backward()
        importance.append({"new": new.tolist(), "ours": ours.tolist(), "theirs": theirs.tolist(), "adv": adv.tolist(),
                           "weights": w.tolist(), "truncated": int((w == CAP).sum()), "loss": loss.item(), "grad": new.grad.tolist()})

process = []  # process supervision of GRPO: normalised over the group, summed from the token on
for lengths in ((1, 1), (5, 2, 7), (12, 9, 1, 4)):
    for gamma in (1.0, 0.9, 0.0):
        for share in (0.4, 1.0):
            rewards = []
            for n in lengths:
                r = torch.randn(n).float().double()
                r[torch.rand(n) > share] = float("nan")
                rewards.append(r)
            rewards[0][-1], rewards[1][0] = 0.25, -1.5  # two at least
            given = torch.cat(rewards)
            given = given[~given.isnan()]
            case = {"gamma": gamma, "rewards": [[None if x != x else x for x in r.tolist()] for r in rewards]}
            for name, scale in (("std", given.std() + 1e-6), ("mean", torch.tensor(1.0))):
                out = []
                for r in rewards:
                    z = torch.nan_to_num((r - given.mean()) / scale, nan=0.0)
                    n = len(r)
                    k = torch.arange(n)
                    d = torch.where(k[None, :] >= k[:, None], gamma ** (k[None, :] - k[:, None]).clamp(min=0).double(), torch.zeros(()).double())
                    out.append((d @ z).tolist())
                case[name] = out
            process.append(case)

distill = []  # importance-sampled policy gradient with A = TASK * task + COEF * (teacher - old), as the GRPO surrogate takes it
for n in (1, 3, 20):
    for spread in (0.1, 2.0):
        new = row(n).requires_grad_()
        old, teacher = row(n, new, 0.05), row(n, new, spread)
        task = torch.randn(1).expand(n).float().double()
        adv = (TASK * task + COEF * (teacher - old)).detach()
        loss = surrogate((new - old).exp(), adv).sum()
        loss.backward()
        distill.append({"new": new.tolist(), "old": old.tolist(), "teacher": teacher.tolist(), "task": task.tolist(), "adv": adv.tolist(),
                        "loss": loss.item(), "grad": new.grad.tolist()})

# The mean of that gradient over what the student samples is that of the reverse divergence: by autograd, of one
# distribution's logits.
expected = []
for v in (2, 5, 9):
    logits = torch.randn(v).float().double().requires_grad_()
    teacher = torch.randn(v).float().double().log_softmax(0)
    p = logits.log_softmax(0)
    (p.exp() * (p - teacher)).sum().backward()
    expected.append({"student": p.tolist(), "teacher": teacher.tolist(), "grad": logits.grad.tolist()})

print(json.dumps({"date": str(datetime.date.today()), "torch": torch.__version__, "low": LOW, "high": HIGH, "cap": CAP, "task": TASK, "coef": COEF,
                  "importance": importance, "process": process, "distill": distill, "expected": expected}))
