package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
)

// maxID bounds token ids, so that a hostile file cannot make the table of tokens huge. Real ones stay under 2^18.
const maxID = 1<<24 - 1

// addedToken is an entry of added_tokens: text that becomes one token before byte-pair encoding sees it.
type addedToken struct {
	ID         int64  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Special    bool   `json:"special"`
}

// vocab maps tokens to ids and ids to the bytes they stand for.
type vocab struct {
	ids     map[string]int32
	bytes   []byte   // the bytes of all tokens, one after another
	end     []uint32 // (ids) where a token's bytes end
	special []bool   // (ids)
}

// newVocab builds the table. No two tokens may share an id: Hugging Face's library would renumber added ones.
func newVocab(model map[string]int64, added []addedToken) (*vocab, error) {
	texts := map[int64]string{}
	largest := int64(-1)
	for text, id := range model {
		if id < 0 || id > maxID {
			return nil, fmt.Errorf("token %q has id %d, want 0 to %d", text, id, maxID)
		}
		if other, ok := texts[id]; ok {
			return nil, fmt.Errorf("tokens %q and %q share the id %d", min(text, other), max(text, other), id)
		}
		texts[id] = text
		largest = max(largest, id)
	}
	for _, a := range added {
		if a.ID < 0 || a.ID > maxID {
			return nil, fmt.Errorf("added token %q has id %d, want 0 to %d", a.Content, a.ID, maxID)
		}
		largest = max(largest, a.ID)
	}
	v := &vocab{ids: make(map[string]int32, len(model)+len(added)), end: make([]uint32, largest+1), special: make([]bool, largest+1)}
	for text, id := range model {
		v.ids[text] = int32(id)
	}
	isAdded := map[int64]bool{}
	for _, a := range added {
		if other, ok := texts[a.ID]; ok && other != a.Content {
			return nil, fmt.Errorf("tokens %q and %q share the id %d", other, a.Content, a.ID)
		}
		texts[a.ID] = a.Content
		isAdded[a.ID] = true
		v.ids[a.Content] = int32(a.ID)
		v.special[a.ID] = a.Special
	}
	alphabet := byteAlphabet()
	for id := range largest + 1 {
		if text := texts[id]; isAdded[id] {
			v.bytes = append(v.bytes, text...)
		} else {
			v.bytes = append(v.bytes, byteLevel(text, &alphabet)...)
		}
		v.end[id] = uint32(len(v.bytes))
	}
	return v, nil
}

// token returns the bytes of a token, nil for an id that names none.
func (v *vocab) token(id int32) []byte {
	if id < 0 || int(id) >= len(v.end) {
		return nil
	}
	from := uint32(0)
	if id > 0 {
		from = v.end[id-1]
	}
	return v.bytes[from:v.end[id]:v.end[id]]
}

// byteAlphabet is the table of byte-level BPE: the printable characters of Latin-1 stand for themselves, the other
// bytes for the characters from U+0100 on, in order. Entries hold byte+1; 0 means that no byte is written so.
func byteAlphabet() [324]uint16 {
	var table [324]uint16
	next := 256
	for b := range 256 {
		printable := b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae
		c := b
		if !printable {
			c = next
			next++
		}
		table[c] = uint16(b) + 1
	}
	return table
}

// byteLevel undoes the alphabet. A token with a character outside it stands for its own UTF-8, as in Hugging Face's decoder.
func byteLevel(text string, alphabet *[324]uint16) []byte {
	out := make([]byte, 0, len(text))
	for _, r := range text {
		if r >= rune(len(alphabet)) || alphabet[r] == 0 {
			return []byte(text)
		}
		out = append(out, byte(alphabet[r]-1))
	}
	return out
}

// tokenizerJSON is what we read of tokenizer.json ourselves. The parts that the Rust library reads stay as they are.
type tokenizerJSON struct {
	AddedTokens  []addedToken    `json:"added_tokens"`
	Normalizer   json.RawMessage `json:"normalizer"`
	PreTokenizer json.RawMessage `json:"pre_tokenizer"`
	Decoder      json.RawMessage `json:"decoder"`
	Model        json.RawMessage `json:"model"`

	vocab map[string]int64
}

// step is a normaliser, pre-tokeniser or decoder.
type step struct {
	Type          string `json:"type"`
	Normalizers   []step `json:"normalizers"`
	PreTokenizers []step `json:"pretokenizers"`
}

// parseTokenizerJSON refuses by name what would not be byte-level BPE as Qwen3 has it: decoding is ours and relies on it.
func parseTokenizerJSON(data []byte) (*tokenizerJSON, error) {
	if nulEscape(data) {
		return nil, fmt.Errorf("it holds a NUL character, which no byte-level vocabulary does")
	}
	var t tokenizerJSON
	if err := json.Unmarshal(data, &t); err != nil {
		return nil, err
	}
	for _, part := range []struct {
		name  string
		json  json.RawMessage
		known []string
	}{
		{"normalizer", t.Normalizer, []string{"", "NFC", "NFD", "NFKC", "NFKD", "Sequence"}},
		{"pre_tokenizer", t.PreTokenizer, []string{"ByteLevel", "Split", "Digits", "Sequence"}},
		{"decoder", t.Decoder, []string{"ByteLevel"}},
	} {
		var s step
		if err := json.Unmarshal(orNull(part.json), &s); err != nil {
			return nil, fmt.Errorf("%s: %w", part.name, err)
		}
		if err := s.check(part.name, part.known); err != nil {
			return nil, err
		}
	}
	return &t, t.readModel()
}

func (t *tokenizerJSON) readModel() error {
	var m struct {
		Type    string           `json:"type"`
		Dropout *float64         `json:"dropout"`
		Vocab   map[string]int64 `json:"vocab"`
	}
	if err := json.Unmarshal(orNull(t.Model), &m); err != nil {
		return fmt.Errorf("model: %w", err)
	}
	if m.Type != "BPE" {
		return fmt.Errorf("model is %q, want BPE", m.Type)
	}
	if len(m.Vocab) == 0 {
		return fmt.Errorf("model.vocab is empty")
	}
	if m.Dropout != nil && *m.Dropout != 0 {
		return fmt.Errorf("model.dropout is %g: encoding would be random", *m.Dropout)
	}
	t.vocab = m.Vocab
	return nil
}

// plain returns the tokenizer.json that the native library gets: byte-pair encoding alone. Added tokens are found by us
// (encode.go); truncation and padding would change ids behind our back.
func (t *tokenizerJSON) plain() []byte {
	return slices.Concat([]byte(`{"version":"1.0","added_tokens":[],"normalizer":`), nulNormalizer(orNull(t.Normalizer)),
		[]byte(`,"pre_tokenizer":`), orNull(t.PreTokenizer), []byte(`,"decoder":`), t.Decoder, []byte(`,"model":`), t.Model, []byte("}"))
}

func orNull(part json.RawMessage) json.RawMessage {
	if part == nil {
		return json.RawMessage("null")
	}
	return part
}

func (s step) check(what string, known []string) error {
	if !slices.Contains(known, s.Type) {
		return fmt.Errorf("%s is %q, which is not supported", what, s.Type)
	}
	for _, inner := range slices.Concat(s.Normalizers, s.PreTokenizers) {
		if err := inner.check(what, known); err != nil {
			return err
		}
	}
	return nil
}

// nulEscape reports a \u0000 in JSON text. The Rust library aborts the process where one reaches an error message.
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
