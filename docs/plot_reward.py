"""Draws docs/reward.svg from a run's metrics: python3 docs/plot_reward.py RUN/metrics.jsonl > docs/reward.svg"""
import json
import sys

steps = [m for m in map(json.loads, open(sys.argv[1])) if m["stage"] == "grpo"]
W, H, L, B = 640, 260, 46, 34
longest = max(m["length"] for m in steps)


def x(i):
    return L + (W - L - 50) * i / (len(steps) - 1)


def y(v):
    return 14 + (H - B - 14) * (1 - v)


def line(key, scale, colour):
    points = " ".join(f"{x(i):.1f},{y(m[key] / scale):.1f}" for i, m in enumerate(steps))
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'


print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {W} {H}" font-family="sans-serif" font-size="12">')
print(f'<rect width="{W}" height="{H}" fill="white"/>')
for v in (0, 0.25, 0.5, 0.75, 1):
    print(f'<line x1="{L}" x2="{W - 50}" y1="{y(v):.1f}" y2="{y(v):.1f}" stroke="#ddd"/>')
    print(f'<text x="{L - 6}" y="{y(v) + 4:.1f}" text-anchor="end" fill="#1660a8">{v:g}</text>')
    print(f'<text x="{W - 44}" y="{y(v) + 4:.1f}" fill="#b05a00">{v * longest:.0f}</text>')
print(line("reward", 1, "#1660a8"), line("length", longest, "#b05a00"))
print(f'<text x="{L}" y="{H - 8}">GRPO step 1 to {len(steps)}</text>')
print(f'<text x="{W - 300}" y="{H - 8}" fill="#1660a8">mean reward of 256 replies</text>')
print(f'<text x="{W - 130}" y="{H - 8}" fill="#b05a00">tokens of a reply</text></svg>')
