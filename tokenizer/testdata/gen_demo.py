"""Writes trainer/recipes/demo-tokenizer, the demo's own tokenizer: 28 tokens, no merges, every token a word that the pattern cuts out whole.

2026-11-29: python gen_demo.py (no packages needed). Two-digit sums in Qwen3's chat format need 25 of the tokens; system, - and *
are there so that a system prompt and the other two exact operations can be tried without another vocabulary. The chat
template is demo_template.jinja, written by hand.
"""

import json
import os

CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"]
WORDS = ["system", "user", "assistant", "\\boxed{", "}", "\n", "\n\n", " "]
WORDS += list("0123456789") + list("+-*=?")


def letters(text):
    """The byte-level form of ASCII text: blanks move to U+0100 and on."""
    return "".join(c if c > " " else chr(0x100 + ord(c)) for c in text)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    out = os.path.join(here, "..", "..", "trainer", "recipes", "demo-tokenizer")
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [{"id": i, "content": c, **flags, "special": c.startswith("<|")} for i, c in enumerate(CONTROL, len(WORDS))]
    pattern = "system|user|assistant|\\\\boxed\\{|\\n\\n|[\\s\\S]"
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
            "vocab": {letters(w): i for i, w in enumerate(WORDS)}, "merges": [],
        },
    }
    with open(os.path.join(out, "tokenizer.json"), "w") as f:
        json.dump(t, f, ensure_ascii=False, indent=1)
        f.write("\n")
    with open(os.path.join(here, "demo_template.jinja")) as f:
        template = f.read()
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
        "clean_up_tokenization_spaces": False, "model_max_length": 256, "chat_template": template,
    }
    with open(os.path.join(out, "tokenizer_config.json"), "w") as f:
        json.dump(config, f, ensure_ascii=False, indent=1)
        f.write("\n")


main()
