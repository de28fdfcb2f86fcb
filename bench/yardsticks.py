"""What others make of the cases of a bench report, on the same card: cuBLAS, SDPA and torch.compile, by way of torch.

Reads a report of `tandem bench` (JSON) and prints one JSON object a line: kernel, shape, by, us. Data are random, times are
medians of five rounds by CUDA events. Run: python3 yardsticks.py REPORT.json > yardsticks.jsonl
"""
import json
import sys

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    sys.exit("yardsticks: torch is not installed: there is nothing to compare with")
if not torch.cuda.is_available():
    sys.exit("yardsticks: torch finds no GPU")

dev, bf, f32 = "cuda", torch.bfloat16, torch.float32


def rand(*shape, dtype=bf):
    return torch.randn(*shape, device=dev, dtype=dtype)


def clock(f):
    """Microseconds of one f: the median of five rounds of 20 ms or more."""
    def round_(n):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(n):
            f()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e3
    for _ in range(3):
        f()
    torch.cuda.synchronize()
    n = max(1, min(200, int(20e3 / max(round_(1), 1))))
    return sorted(round_(n) / n for _ in range(5))[2]


def matmul(s):
    x, w = rand(s["T"], s["K"]), rand(s["N"], s["K"])
    return "cuBLAS", lambda: x @ w.T


def matmul_dx(s):
    dy, w = rand(s["T"], s["N"]), rand(s["N"], s["K"])
    return "cuBLAS", lambda: dy @ w


def matmul_dw(s):
    dy, x = rand(s["T"], s["N"]), rand(s["T"], s["K"])
    return "cuBLAS, bfloat16 out, nothing added", lambda: dy.T @ x


def qkv(s, rows):
    q = rand(s["S"], s["H"], rows, s["E"]).requires_grad_()
    k, v = (rand(s["S"], s["G"], s["C"], s["E"]).requires_grad_() for _ in range(2))
    return q, k, v


def attention(s):
    q, k, v = qkv(s, s["C"])
    with torch.no_grad():
        pass

    def f():
        with torch.no_grad():
            F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return "SDPA", f


def attention_backward(s):
    q, k, v = qkv(s, s["C"])
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    dout = torch.randn_like(out)
    return "SDPA", lambda: torch.autograd.grad(out, (q, k, v), dout, retain_graph=True)


def attention_decode(s):
    q, k, v = (t.detach() for t in qkv(s, 1))
    return "SDPA, contiguous keys", lambda: F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def compiled(f, *args):
    g = torch.compile(f)
    return "torch.compile", lambda: g(*args)


def norm(x, w):
    y = x.float()
    return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)).to(bf) * w


def rmsnorm(s):
    return compiled(norm, rand(s["T"], s["N"]), rand(s["N"]))


def add_rmsnorm(s):
    def f(x, r, w):
        y = x + r
        return y, norm(y, w)
    return compiled(f, rand(s["T"], s["N"]), rand(s["T"], s["N"]), rand(s["N"]))


def swiglu(s):
    def f(x):
        gate, up = x.chunk(2, -1)
        return F.silu(gate) * up
    return compiled(f, rand(s["T"], 2 * s["N"]))


def logprob_of(x, w, target):
    return torch.log_softmax((x @ w.T).float(), -1).gather(1, target[:, None])


def logprob(s):
    target = torch.randint(s["N"], (s["T"],), device=dev)
    return compiled(logprob_of, rand(s["T"], s["K"]), rand(s["N"], s["K"]) * 0.02, target)


def logprob_backward(s):
    x, w = rand(s["T"], s["K"]).requires_grad_(), (rand(s["N"], s["K"]) * 0.02).requires_grad_()
    target = torch.randint(s["N"], (s["T"],), device=dev)
    out = torch.compile(logprob_of)(x, w, target)
    dout = torch.randn_like(out)
    return "torch.compile", lambda: torch.autograd.grad(out, (x, w), dout, retain_graph=True)


def sample(s):
    def f(z):
        p = torch.softmax(z, -1)
        return (p / torch.empty_like(p).exponential_()).argmax(-1)
    return compiled(f, rand(s["T"], s["N"], dtype=f32))


def adamw(s):
    w = torch.nn.Parameter(rand(s["N"], dtype=f32))
    w.grad = rand(s["N"], dtype=f32)
    opt = torch.optim.AdamW([w], lr=1e-6, betas=(0.9, 0.98), weight_decay=0.1, fused=True)
    return "torch fused AdamW, no bfloat16 copy", opt.step


def gradnorm(s):
    g = rand(s["N"], dtype=f32)
    return "torch norm", lambda: torch.linalg.vector_norm(g)


def embedding(s):
    w, ids = rand(s["N"], s["K"]), torch.randint(s["N"], (s["T"],), device=dev)
    return "torch", lambda: F.embedding(ids, w)


YARDSTICKS = {
    "linear": matmul, "linear_dx": matmul_dx, "linear_dw": matmul_dw,
    "attention": attention, "attention_backward": attention_backward, "attention_decode": attention_decode,
    "rmsnorm": rmsnorm, "add_rmsnorm": add_rmsnorm, "swiglu": swiglu, "logprob": logprob, "logprob_backward": logprob_backward,
    "sample": sample, "adamw": adamw, "gradnorm": gradnorm, "embedding": embedding,
}
COMPILED = {"rmsnorm", "add_rmsnorm", "swiglu", "logprob", "logprob_backward", "sample"}


def main():
    report = json.load(open(sys.argv[1]))
    print(json.dumps({"fact": f"yardsticks: torch {torch.__version__}, {torch.cuda.get_device_name()}"}))
    a, b = rand(8192, 8192), rand(8192, 8192)
    print(json.dumps({"kernel": "matrix", "tflop_s": 2 * 8192**3 / clock(lambda: a @ b.T) / 1e6}), flush=True)
    del a, b
    # What has to be compiled comes last: it takes seconds a shape, and the time may end.
    for r in sorted(report["results"], key=lambda r: r["kernel"] in COMPILED):
        make = YARDSTICKS.get(r["kernel"])
        if make is None:
            continue
        try:
            by, f = make(r["shape"])
            print(json.dumps({"kernel": r["kernel"], "shape": r["shape"], "by": by, "us": clock(f)}), flush=True)
        except Exception as e:  # a yardstick that cannot run is missing from the table, and this says why
            print(f"yardsticks: {r['kernel']} {r['shape']}: {e}", file=sys.stderr)
        f = None
        torch.cuda.empty_cache()


main()
