"""Makes the tiny Qwen3 models and golden values of package model.

In a virtual environment with torch==2.13.0 transformers==5.24.0 safetensors numpy:

    python gen_golden.py            # writes golden/ and rope.json beside this file
    python gen_golden.py --check    # says whether the committed directories still give the committed values

Every model is a directory that AutoModelForCausalLM.from_pretrained loads, with random weights large enough that a wrong
mask, scale or rotation shows. The values come from the saved directory, loaded back and computed in float32, eager
attention, one thread. golden.json holds

    made         date, versions, seed
    prompts      [P][T] token ids
    logprobs     [P][T-1] of every token but the first; logprobs_t the same at `temperature`
    entropy      [P][T-1] of the distribution that each of those tokens was drawn from, in nats
    greedy       [P][20] the continuation of each prompt; `margin` is the smallest lead of a chosen logit
    train        for some models: AdamW hyperparameters and four steps. A step has sequences [S][T] of different
                 lengths, from [S] (tokens from that index on are learned), the loss (mean -logprob over them), and the
                 gradient norm before it is clipped. grads.safetensors is the gradient of the first step before
                 clipping, after.safetensors the weights after the last. Norms are not decayed, matrices are, the
                 embedding included.
"""

import datetime, json, pathlib, shutil, sys

import numpy as np
import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, Qwen3Config, Qwen3ForCausalLM
from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding

HERE = pathlib.Path(__file__).resolve().parent
TEMPERATURE = 0.7
GREEDY = 20
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64)

# name: V, D, L, H, K, E, F, tied, dtype of the files, rope theta and scaling, layout of config.json, shard size, train
MODELS = {
    "gqa1_e16_tied_f32": dict(V=101, D=32, L=2, H=2, K=2, E=16, F=48, tied=True, dtype="float32", theta=1e4, layout="published", train=True),
    "gqa2_e32_untied_bf16": dict(V=128, D=40, L=2, H=4, K=2, E=32, F=56, tied=False, dtype="bfloat16", theta=1e6, layout="new"),
    "gqa3_e64_tied_bf16": dict(V=211, D=32, L=2, H=3, K=1, E=64, F=72, tied=True, dtype="bfloat16", theta=1e6, layout="published"),
    "gqa4_e128_untied_sharded": dict(V=150, D=16, L=2, H=4, K=1, E=128, F=40, tied=False, dtype="bfloat16", theta=5e6, layout="published", shard="40KB"),
    "gqa8_e16_untied_f16": dict(V=300, D=32, L=3, H=8, K=1, E=16, F=80, tied=False, dtype="float16", theta=1e4, layout="new"),
    "gqa2_e32_tied_yarn": dict(V=128, D=32, L=2, H=4, K=2, E=32, F=48, tied=True, dtype="bfloat16", theta=1e4, layout="published", yarn=YARN, long=150),
    "gqa5_e16_untied_train": dict(V=61, D=24, L=2, H=5, K=1, E=16, F=40, tied=False, dtype="float32", theta=1e4, layout="new", train=True),
}


def make(name, m, seed):
    torch.manual_seed(seed)
    rope = dict(rope_theta=m["theta"], rope_type="default") | m.get("yarn", {})
    config = Qwen3Config(
        vocab_size=m["V"], hidden_size=m["D"], num_hidden_layers=m["L"], num_attention_heads=m["H"],
        num_key_value_heads=m["K"], head_dim=m["E"], intermediate_size=m["F"], tie_word_embeddings=m["tied"],
        max_position_embeddings=256, rms_norm_eps=1e-6, rope_parameters=rope, dtype=m["dtype"],
        bos_token_id=None, eos_token_id=None,
    )
    model = Qwen3ForCausalLM(config)
    with torch.no_grad():
        for key, p in model.named_parameters():
            if key.endswith("norm.weight"):
                p.copy_(1 + 0.3 * torch.randn_like(p))
            elif "embed" in key or "lm_head" in key:
                p.copy_(2 * m["D"] ** -0.5 * torch.randn_like(p))
            else:
                p.copy_(p.shape[1] ** -0.5 * torch.randn_like(p))
    model.to(getattr(torch, m["dtype"]))
    out = HERE / "golden" / name
    shutil.rmtree(out, ignore_errors=True)
    model.save_pretrained(out, max_shard_size=m.get("shard", "1GB"))
    (out / "generation_config.json").unlink(missing_ok=True)
    if m["layout"] == "published":
        publish(out / "config.json")


def publish(path):
    """Rewrites config.json of transformers 5 in the layout of published Qwen3."""
    c = json.loads(path.read_text())
    rope = c.pop("rope_parameters")
    c["rope_theta"] = rope.pop("rope_theta")
    c["rope_scaling"] = None if rope == {"rope_type": "default"} else rope
    c["torch_dtype"] = c.pop("dtype")
    c.pop("layer_types")
    path.write_text(json.dumps(c, indent=2, sort_keys=True) + "\n")


def load(name):
    return AutoModelForCausalLM.from_pretrained(HERE / "golden" / name, dtype=torch.float32, attn_implementation="eager")


@torch.no_grad()
def score(model, ids, temperature=1.0):
    """Log-probs of ids[1:] and the entropies of the distributions they come from."""
    z = model(torch.tensor([ids])).logits[0, :-1].float() / temperature
    logp = z.log_softmax(-1)
    return logp[range(len(ids) - 1), ids[1:]].tolist(), (-(logp.exp() * logp).sum(-1)).tolist()


@torch.no_grad()
def greedy(model, ids):
    ids, out, margin = list(ids), [], float("inf")
    for _ in range(GREEDY):
        top = model(torch.tensor([ids])).logits[0, -1].topk(2)
        margin = min(margin, (top.values[0] - top.values[1]).item())
        out.append(top.indices[0].item())
        ids.append(out[-1])
    return out, margin


def train(model, rng, V, out):
    h = dict(lr=3e-3, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1, clip=1.0)
    named = list(model.named_parameters())
    opt = torch.optim.AdamW(
        [dict(params=[p for _, p in named if p.dim() > 1], weight_decay=h["weight_decay"]),
         dict(params=[p for _, p in named if p.dim() == 1], weight_decay=0.0)],
        lr=h["lr"], betas=(h["beta1"], h["beta2"]), eps=h["eps"], foreach=False)
    steps = []
    for step in range(4):
        sequences = [rng.integers(V, size=n).tolist() for n in rng.permutation([7, 19, 33])]
        first = [int(rng.integers(1, len(s) // 2)) for s in sequences]
        opt.zero_grad()
        total = sum(len(s) - f for s, f in zip(sequences, first))
        loss = 0
        for s, f in zip(sequences, first):
            logp = model(torch.tensor([s])).logits[0, :-1].log_softmax(-1)
            loss = loss - logp[range(f - 1, len(s) - 1), s[f:]].sum() / total
        loss.backward()
        if step == 0:
            save_file({k: p.grad.contiguous() for k, p in named}, out / "grads.safetensors", metadata={"format": "pt"})
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), h["clip"])
        opt.step()
        steps.append({"sequences": sequences, "from": first, "loss": loss.item(), "norm": norm.item()})
    save_file({k: p.detach().contiguous() for k, p in named}, out / "after.safetensors", metadata={"format": "pt"})
    return h | dict(steps=steps)


def values(name, m, seed):
    model, rng = load(name), np.random.default_rng(seed)
    lengths = [1, 2, 5, 17, 70] + ([m["long"]] if "long" in m else [])
    prompts = [rng.integers(m["V"], size=n).tolist() for n in lengths]
    g = dict(
        made=dict(date=datetime.date.today().isoformat(), torch=torch.__version__, transformers=transformers.__version__, seed=seed),
        temperature=TEMPERATURE, prompts=prompts, logprobs=[], logprobs_t=[], entropy=[], greedy=[], margin=float("inf"))
    for ids in prompts:
        logp, entropy = score(model, ids)
        continuation, margin = greedy(model, ids)
        g["logprobs"].append(logp)
        g["entropy"].append(entropy)
        g["logprobs_t"].append(score(model, ids, TEMPERATURE)[0])
        g["greedy"].append(continuation)
        g["margin"] = min(g["margin"], margin)
    if m.get("train"):
        g["train"] = train(model, rng, m["V"], HERE / "golden" / name)
    return g


def rope():
    """cos and sin of the first half of a head (the second repeats it) at some positions."""
    cases = []
    for E, theta, yarn, positions in [
        (16, 1e4, {}, [0, 1, 2, 100, 1023]),
        (64, 5e6, {}, [1, 77, 4095, 262143]),
        (128, 1e6, {}, [1, 3, 4095, 40959]),
        (128, 1e6, dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32768), [0, 1, 4095, 131071]),
        (32, 1e4, dict(rope_type="yarn", factor=2.5, original_max_position_embeddings=64, attention_factor=1.5, beta_fast=16.0, beta_slow=2.0), [1, 63, 159]),
        (16, 1e4, dict(rope_type="yarn", factor=8.0, original_max_position_embeddings=4), [1, 31]),
    ]:
        config = Qwen3Config(head_dim=E, rope_parameters=dict(rope_theta=theta, rope_type="default") | yarn)
        cos, sin = Qwen3RotaryEmbedding(config)(torch.zeros(1), torch.tensor([positions]))
        cases.append(dict(head_dim=E, rope_theta=theta, yarn=yarn or None, positions=positions,
                          cos=cos[0, :, : E // 2].tolist(), sin=sin[0, :, : E // 2].tolist()))
    return dict(made=dict(date=datetime.date.today().isoformat(), torch=torch.__version__, transformers=transformers.__version__), cases=cases)


def dump(path, v):
    """Nine digits give a float32 back exactly."""
    def short(v):
        if isinstance(v, float):
            return float(f"{v:.9g}")
        if isinstance(v, dict):
            return {k: short(x) for k, x in v.items()}
        return [short(x) for x in v] if isinstance(v, list) else v
    path.write_text(json.dumps(short(v), separators=(",", ":")) + "\n")


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    if sys.argv[1:] == ["--check"]:
        for name in MODELS:
            g = json.loads((HERE / "golden" / name / "golden.json").read_text())
            model = load(name)
            worst = max(abs(a - b) for ids, want in zip(g["prompts"], g["logprobs"]) for a, b in zip(score(model, ids)[0], want))
            print(f"{name}: largest difference of a log-prob {worst:.3g}")
        return
    for name, m in MODELS.items():
        for seed in range(1, 100):
            make(name, m, seed)
            g = values(name, m, seed)
            if g["margin"] > 5e-3:  # far above float32 rounding, so that greedy continuations have one right value
                break
        dump(HERE / "golden" / name / "golden.json", g)
        print(name, "seed", seed, "margin", g["margin"], *((s["loss"], s["norm"]) for s in g.get("train", {}).get("steps", [])))
    dump(HERE / "rope.json", rope())


main()
