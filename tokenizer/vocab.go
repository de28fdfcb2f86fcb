package tokenizer

import "fmt"

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
