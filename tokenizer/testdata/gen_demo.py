"""Writes trainer/recipes/demo-tokenizer and demo-tools-tokenizer, the demonstrations' own tokenizers: 28 and 35 tokens, no merges,
every token a word that the pattern cuts out whole.

2026-11-29: python gen_demo.py (no packages needed). Two-digit sums in Qwen3's chat format need 25 of the tokens; system, - and *
are there so that a system prompt and the other two exact operations can be tried without another vocabulary. Products by
code_interpreter need what a call is written with and what it is answered with, a number or the word Error. The chat
templates are demo_template.jinja and demo_tools_template.jinja, written by hand.
"""

import json
import os
import re

DEMO = {
    "name": "demo",
    "control": ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"],
    "words": ["system", "user", "assistant", "\\boxed{", "}", "\n", "\n\n", " "] + list("0123456789") + list("+-*=?"),
}
TOOLS = {
    "name": "demo-tools",
    "control": ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"],
    "words": ["user", "assistant", "code_interpreter", '{"name": "', '", "arguments": {"code": "', "print(", ")", '"}}', "Error",
              "\\boxed{", "}", "\n", "\n\n"] + list("0123456789") + list("*=?"),
}


def letters(text):
    """The byte-level form of ASCII text: blanks move to U+0100 and on."""
    return "".join(c if c > " " else chr(0x100 + ord(c)) for c in text)


def write(demo):
    here = os.path.dirname(os.path.abspath(__file__))
    out = os.path.join(here, "..", "..", "trainer", "recipes", demo["name"] + "-tokenizer")
    os.makedirs(out, exist_ok=True)
    words = demo["words"]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [{"id": i, "content": c, **flags, "special": c.startswith("<|")} for i, c in enumerate(demo["control"], len(words))]
    long = [re.escape(w).replace("\\\n", "\\n").replace("\\ ", " ") for w in words if len(w) > 1]
    pattern = "|".join(long) + "|[\\s\\S]"
    t = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        ]},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": True,
            "vocab": {letters(w): i for i, w in enumerate(words)}, "merges": [],
        },
    }
    with open(os.path.join(out, "tokenizer.json"), "w") as f:
        json.dump(t, f, ensure_ascii=False, indent=1)
        f.write("\n")
    with open(os.path.join(here, demo["name"].replace("-", "_") + "_template.jinja")) as f:
        template = f.read()
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
        "clean_up_tokenization_spaces": False, "model_max_length": 256, "chat_template": template,
    }
    with open(os.path.join(out, "tokenizer_config.json"), "w") as f:
        json.dump(config, f, ensure_ascii=False, indent=1)
        f.write("\n")


write(DEMO)
write(TOOLS)
