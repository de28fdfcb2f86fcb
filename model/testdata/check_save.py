"""Says whether transformers loads what model.Save wrote, and computes the same with it.

In a virtual environment with torch==2.13.0 and transformers, 5.24.0 or 4.57.3:

    python check_save.py SAVED [GOLDEN]

SAVED is a directory that Save wrote. With GOLDEN, the directory of testdata/golden that it was loaded from, saved in
float32, log-probs must be those of golden.json. Exits 1 if anything is missing, unexpected or different.
"""

import json, pathlib, sys

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

saved = sys.argv[1]
transformers.logging.set_verbosity_error()
config = AutoConfig.from_pretrained(saved)
GenerationConfig.from_pretrained(saved)
model, info = AutoModelForCausalLM.from_pretrained(saved, dtype="auto", attn_implementation="eager", output_loading_info=True)
bad = {k: v for k, v in info.items() if v}
print("transformers", transformers.__version__, saved, config.model_type, model.dtype, "tied" if config.tie_word_embeddings else "untied", bad)
if len(sys.argv) > 2:
    golden = json.loads((pathlib.Path(sys.argv[2]) / "golden.json").read_text())
    worst = 0
    for ids, want in zip(golden["prompts"], golden["logprobs"]):
        with torch.no_grad():
            logp = model(torch.tensor([ids])).logits[0, :-1].log_softmax(-1)
        worst = max([worst] + [abs(a - b) for a, b in zip(logp[range(len(ids) - 1), ids[1:]].tolist(), want)])
    print("largest difference of a log-prob", worst)
    bad = bad or worst > 1e-5
sys.exit(1 if bad else 0)
