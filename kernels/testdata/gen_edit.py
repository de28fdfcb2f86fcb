"""Golden values of penalties, bias and allowed tokens, from transformers' logits processors.

In a virtual environment with torch==2.13.0 and transformers==5.24.0:

    python gen_edit.py

writes edit.json beside this file. transformers has no presence and frequency penalty: these follow the formula that
OpenAI's API documents, mu[j] - c[j] * frequency - float(c[j] > 0) * presence, after the repetition penalty.
"""

import datetime
import json
import pathlib

import torch
import transformers
from transformers import PrefixConstrainedLogitsProcessor, RepetitionPenaltyLogitsProcessor, SequenceBiasLogitsProcessor, TemperatureLogitsWarper

torch.manual_seed(20270)


def flat(x):
    return [float(f"{y:.9g}") for y in x.flatten().tolist()]


def case(name, V, before, sampled, repetition=1.0, presence=0.0, frequency=0.0, bias=None, allowed=None, temperature=1.0):
    logits = (torch.randn(1, V, dtype=torch.float64) * 2).float().double()
    ids = torch.tensor([before + sampled])
    scores = logits.clone()
    if bias:
        scores = SequenceBiasLogitsProcessor([[[i], b] for i, b in bias])(ids, scores)
    if repetition != 1:
        scores = RepetitionPenaltyLogitsProcessor(repetition)(ids, scores)
    counts = torch.bincount(torch.tensor(sampled, dtype=torch.int64), minlength=V).double()
    scores = scores - frequency * counts - presence * (counts > 0)
    if allowed is not None:
        scores = PrefixConstrainedLogitsProcessor(lambda batch, given: allowed, 1)(ids, scores)
    drawn = TemperatureLogitsWarper(temperature)(ids, scores) if temperature != 1 else scores
    return dict(
        name=name, logits=flat(logits), before=before, sampled=sampled, repetition=repetition, presence=presence, frequency=frequency,
        bias=[dict(id=i, bias=b) for i, b in bias or []], allowed=allowed or [], temperature=temperature,
        probs=flat(drawn.softmax(-1)), logp=flat((logits / temperature).log_softmax(-1)),
    )


golden = dict(
    made=datetime.date.today().isoformat(),
    torch=torch.__version__,
    transformers=transformers.__version__,
    cases=[
        case("repetition", 20, [1, 2, 3, 3, 3], [4, 5, 5, 1], repetition=1.3),
        case("repetition rewards", 20, [1, 2, 3], [4, 5], repetition=0.6),
        case("presence", 20, [1, 2], [3, 3, 4], presence=1.5),
        case("frequency", 20, [1, 2, 2, 2], [3, 3, 3, 4], frequency=0.7),
        case("frequency rewards", 20, [], [3, 3, 4], frequency=-0.7),
        case("all penalties", 20, [0, 1, 2], [2, 3, 3], repetition=1.2, presence=0.4, frequency=0.3, temperature=0.7),
        case("bias", 20, [1], [2], bias=[(0, 5.0), (7, -5.0), (19, 1.5)]),
        case("bias before repetition", 20, [0, 1], [7], repetition=1.5, bias=[(0, 3.0), (7, -3.0), (8, 2.0)]),
        case("allowed", 20, [1], [2], allowed=[0, 4, 19]),
        case("one allowed", 20, [1], [2], allowed=[6]),
        case("everything", 30, [0, 1, 2, 29], [29, 4, 4, 11], repetition=1.4, presence=0.2, frequency=0.5,
             bias=[(4, 2.0), (11, -1.0), (25, 1.0)], allowed=[1, 2, 4, 11, 25, 29], temperature=1.6),
    ],
)
pathlib.Path(__file__).with_name("edit.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")
