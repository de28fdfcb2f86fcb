"""Learning rates of transformers' get_scheduler for the optimizer's schedules: python gen_schedules.py > schedules.json

rates[i] is that of step i, counted from 0, for a learning rate of 1. Warm-ups of every awkward length: none, one step, all
steps, more steps than there are.
"""

import datetime
import json
import sys

import torch
import transformers

runs = []
for schedule, name in [("constant", "constant_with_warmup"), ("linear", "linear"), ("cosine", "cosine")]:
    for steps in [1, 2, 7, 20]:
        for warmup in [0, 1, 3, steps, steps + 5]:
            w = torch.nn.Parameter(torch.zeros(1))
            opt = torch.optim.AdamW([w], lr=1.0)
            s = transformers.get_scheduler(name, opt, num_warmup_steps=warmup, num_training_steps=steps)
            rates = []
            for _ in range(steps + 1):
                rates.append(opt.param_groups[0]["lr"])
                opt.step()
                s.step()
            runs.append(dict(schedule=schedule, steps=steps, warmup=warmup, rates=rates))
json.dump(dict(date=str(datetime.date.today()), torch=torch.__version__, transformers=transformers.__version__, runs=runs), sys.stdout)
print()
