"""Writes tiny/: a small byte-level BPE tokenizer in the layout of Qwen3's, for tests that need no download.

2026-11-29, in a virtual environment with transformers==5.24.0 (tokenizers 0.23.3): python gen_tiny.py
The chat template beside it, tiny/chat_template.jinja, is written by hand.
"""

import json
import os

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

TEXT = [
    "The quick brown fox jumps over the lazy dog, then thinks about what it has done and jumps again.",
    "What is 12 + 34? The answer is 46. Is 7 a prime number? It is, and so are 11, 13 and 17.",
    "def add(a, b):\n    return a + b\n\nprint(add(2, 3))\n\nfor i in range(10):\n    print(i * i)\n",
    "Grüße aus München, wo die Straßen größer und die Häuser älter sind als man denkt.",
    "user assistant system tool user assistant system tool name arguments content",
    "\\boxed{42} and \\frac{1}{2} and \\sqrt{3} and \\boxed{\\frac{3}{4}} are what answers look like.",
    "你好 世界 你好 数学 答案",
    '{"name": "python", "arguments": {"code": "print(1)"}} {"type": "function", "function": {"name": "python"}}',
]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
PLAIN = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"]
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def main():
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tiny")
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    t.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420, min_frequency=1, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    t.train_from_iterator(TEXT, trainer)
    j = json.loads(t.to_str())
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    j["added_tokens"] = [
        {"id": 420 + i, "content": text, **flags, "special": text in SPECIAL} for i, text in enumerate(SPECIAL + PLAIN)
    ]
    with open(os.path.join(here, "tokenizer.json"), "w") as f:
        json.dump(j, f, ensure_ascii=False, indent=0)
        f.write("\n")
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    with open(os.path.join(here, "tokenizer_config.json"), "w") as f:
        json.dump(config, f, indent=2)
        f.write("\n")
    with open(os.path.join(here, "generation_config.json"), "w") as f:
        json.dump({"eos_token_id": [422, 420]}, f)
        f.write("\n")


main()
