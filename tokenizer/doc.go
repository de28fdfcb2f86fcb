// Package tokenizer turns text into tokens and back, renders a model's chat template, and reads tool calls out of
// what a model wrote.
//
// It reads the tokenizer files of a Hugging Face directory of the Qwen3 family: byte-level BPE in tokenizer.json,
// special tokens and the Jinja chat template in tokenizer_config.json or chat_template.jinja. Byte-pair encoding is
// done by the Rust library of Hugging Face through github.com/daulet/tokenizers, templates by
// github.com/ardanlabs/jinja; ids and prompts are those of transformers.
//
// Text that a user or a tool supplied is data. Encode with SpecialAsText, EncodeChat and Seam never let it become a
// control token, whatever it spells.
//
// Linking needs libtokenizers.a. native/build.sh, run as "tokenizer/native/build.sh build/native", puts it where the linker
// looks; CGO_LDFLAGS=-L... names another folder.
package tokenizer
