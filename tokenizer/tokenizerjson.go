package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// tokenizerJSON is tokenizer.json, checked. The Rust library ends the process on some faults (a decoder that does not parse,
// a NUL in an error message, a merge shorter than the subword prefix), so it never sees the file: it gets what native writes.
type tokenizerJSON struct {
	AddedTokens  []addedToken `json:"added_tokens"`
	Normalizer   *step        `json:"normalizer"`
	PreTokenizer *step        `json:"pre_tokenizer"`
	Decoder      *step        `json:"decoder"`
	Model        bpe          `json:"model"`

	vocab map[string]int64
}

// bpe is the model of tokenizer.json.
type bpe struct {
	Type         string          `json:"type"`
	Dropout      *float64        `json:"dropout"`
	Unk          *string         `json:"unk_token"`
	Prefix       *string         `json:"continuing_subword_prefix"`
	Suffix       *string         `json:"end_of_word_suffix"`
	FuseUnk      bool            `json:"fuse_unk"`
	ByteFallback bool            `json:"byte_fallback"`
	IgnoreMerges bool            `json:"ignore_merges"`
	Vocab        json.RawMessage `json:"vocab"`
	Merges       json.RawMessage `json:"merges"`
}

// step is a normaliser, pre-tokeniser or decoder, with the fields of those that are supported.
type step struct {
	Type             string            `json:"type"`
	Normalizers      []step            `json:"normalizers,omitempty"`
	PreTokenizers    []step            `json:"pretokenizers,omitempty"`
	Pattern          map[string]string `json:"pattern,omitempty"`
	Behavior         string            `json:"behavior,omitempty"`
	Content          *string           `json:"content,omitempty"`
	Invert           *bool             `json:"invert,omitempty"`
	AddPrefixSpace   *bool             `json:"add_prefix_space,omitempty"`
	TrimOffsets      *bool             `json:"trim_offsets,omitempty"`
	UseRegex         *bool             `json:"use_regex,omitempty"`
	IndividualDigits *bool             `json:"individual_digits,omitempty"`
}

// parseTokenizerJSON refuses by name what would not be byte-level BPE as Qwen3 has it: decoding is ours and relies on it.
func parseTokenizerJSON(data []byte) (*tokenizerJSON, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("it is not UTF-8")
	}
	if nulEscape(data) {
		return nil, errors.New("it holds a NUL character, which no byte-level vocabulary does")
	}
	var t tokenizerJSON
	if err := json.Unmarshal(data, &t); err != nil {
		return nil, err
	}
	for _, part := range []struct {
		name     string
		step     *step
		optional bool
		known    []string
	}{
		{"normalizer", t.Normalizer, true, []string{"NFC", "NFD", "NFKC", "NFKD", "Sequence"}},
		{"pre_tokenizer", t.PreTokenizer, false, []string{"ByteLevel", "Split", "Digits", "Sequence"}},
		{"decoder", t.Decoder, false, []string{"ByteLevel"}},
	} {
		if part.step == nil && part.optional {
			continue
		}
		if part.step == nil {
			return nil, fmt.Errorf("there is no %s", part.name)
		}
		if err := part.step.check(part.name, part.known, 0); err != nil {
			return nil, err
		}
	}
	if err := t.Model.check(); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if err := json.Unmarshal(t.Model.Vocab, &t.vocab); err != nil {
		return nil, fmt.Errorf("model.vocab: %w", err)
	}
	if len(t.vocab) == 0 {
		return nil, errors.New("model.vocab is empty")
	}
	return &t, nil
}

func (m *bpe) check() error {
	switch {
	case m.Type != "BPE":
		return fmt.Errorf("type is %q, want BPE", m.Type)
	case m.Dropout != nil && *m.Dropout != 0:
		return fmt.Errorf("dropout is %g: encoding would be random", *m.Dropout)
	case m.Prefix != nil && *m.Prefix != "":
		return fmt.Errorf("continuing_subword_prefix is %q, which is not supported", *m.Prefix)
	case m.Suffix != nil && *m.Suffix != "":
		return fmt.Errorf("end_of_word_suffix is %q, which is not supported", *m.Suffix)
	case m.Vocab == nil || m.Merges == nil:
		return errors.New("vocab or merges are missing")
	}
	m.Dropout, m.Prefix, m.Suffix = nil, nil, nil
	return nil
}

func (s *step) check(what string, known []string, depth int) error {
	if !slices.Contains(known, s.Type) {
		return fmt.Errorf("%s is %q, which is not supported", what, s.Type)
	}
	if depth > 4 {
		return fmt.Errorf("%s has sequences inside sequences", what)
	}
	for _, inner := range slices.Concat(s.Normalizers, s.PreTokenizers) {
		if err := inner.check(what, known, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// native writes the tokenizer.json that the native library gets: byte-pair encoding alone. Added tokens are found by us
// (encode.go), decoding is ours, truncation and padding would change ids behind our back. The normaliser first undoes
// escapeNUL.
func (t *tokenizerJSON) native() ([]byte, error) {
	replace := func(pattern, content string) step {
		return step{Type: "Replace", Pattern: map[string]string{"String": pattern}, Content: &content}
	}
	normalizers := []step{replace(nulMark+"0", "\x00"), replace(nulMark+"1", nulMark)}
	if t.Normalizer != nil {
		normalizers = append(normalizers, *t.Normalizer)
	}
	steps, err := marshal(map[string]any{
		"version": "1.0", "added_tokens": []int{}, "pre_tokenizer": t.PreTokenizer,
		"normalizer": step{Type: "Sequence", Normalizers: normalizers},
	})
	if err != nil {
		return nil, err
	}
	model := t.Model
	model.Vocab, model.Merges = nil, nil
	settings, err := marshal(model)
	if err != nil {
		return nil, err
	}
	// The vocabulary and the merges are 11 MB of Qwen3's file and need no second look.
	settings, found := bytes.CutSuffix(settings, []byte(`"vocab":null,"merges":null}`))
	if !found {
		panic("tokenizer: vocab and merges are not the last fields of bpe")
	}
	return slices.Concat(steps[:len(steps)-1], []byte(`,"model":`), settings, []byte(`"vocab":`), t.Model.Vocab,
		[]byte(`,"merges":`), t.Model.Merges, []byte("}}")), nil
}

// nulEscape reports a \u0000 in JSON text.
func nulEscape(data []byte) bool {
	const escape = `u0000`
	for i := 0; i+len(escape) < len(data); i++ {
		if data[i] != '\\' {
			continue
		}
		if string(data[i+1:i+1+len(escape)]) == escape {
			return true
		}
		i++ // the escaped character, which may be another backslash
	}
	return false
}
