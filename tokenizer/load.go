package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/daulet/tokenizers"
)

// maxFile bounds what Load reads of one file. Qwen3's tokenizer.json has 11 MB.
const maxFile = 256 << 20

// Tokenizer is what a model's directory says about text. It is safe for use by several goroutines, until Close.
type Tokenizer struct {
	vocab     *vocab
	added     addedTokens
	eos       []int32
	templates map[string]*template
	variables map[string]string // bos_token and the like, which templates may name

	mu     sync.RWMutex // held for reading while native is in use; Close takes it whole
	native *tokenizers.Tokenizer
}

// Load reads the tokenizer of a Hugging Face directory: tokenizer.json, and where they exist tokenizer_config.json,
// chat_template.jinja (which wins over a template in the former) and the end tokens of generation_config.json and
// config.json. It refuses what is not byte-level BPE as Qwen3 has it.
func Load(dir string) (*Tokenizer, error) {
	t, err := load(dir)
	if err != nil {
		return nil, fmt.Errorf("load tokenizer %s: %w", dir, err)
	}
	return t, nil
}

func load(dir string) (*Tokenizer, error) {
	var c config
	if err := readJSON(filepath.Join(dir, "tokenizer_config.json"), &c); err != nil {
		return nil, err
	}
	data, err := readFile(filepath.Join(dir, "tokenizer.json"))
	if err != nil {
		return nil, err
	}
	t, err := parse(data, &c)
	if err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	if err := t.loadChat(dir, &c); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// parse makes a tokenizer, still without end tokens and templates, of tokenizer.json and what tokenizer_config.json adds.
func parse(data []byte, c *config) (*Tokenizer, error) {
	j, err := parseTokenizerJSON(data)
	if err != nil {
		return nil, err
	}
	all, err := c.merge(j.AddedTokens)
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{}
	if t.added, err = newAddedTokens(all); err != nil {
		return nil, err
	}
	native, err := j.native()
	if err != nil {
		return nil, err
	}
	// Each takes half a second for Qwen3's vocabulary.
	done := make(chan error)
	go func() {
		var err error
		t.native, err = tokenizers.FromBytes(native)
		done <- err
	}()
	t.vocab, err = newVocab(j.vocab, all)
	if err = errors.Join(err, <-done); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// loadChat reads what only chats need: the end tokens, the variables and the templates.
func (t *Tokenizer) loadChat(dir string, c *config) error {
	for _, name := range []string{"generation_config.json", "config.json"} {
		var g struct {
			EOS tokenIDs `json:"eos_token_id"`
		}
		if err := readJSON(filepath.Join(dir, name), &g); err != nil {
			return err
		}
		t.addEOS(g.EOS...)
	}
	t.variables = c.variables()
	if id, ok := t.ID(t.variables["eos_token"]); ok {
		t.addEOS(id)
	}
	sources := c.ChatTemplate
	text, err := readFile(filepath.Join(dir, "chat_template.jinja"))
	switch {
	case err == nil:
		sources = chatTemplates{"default": string(text)}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	t.templates = map[string]*template{}
	for name, source := range sources {
		if t.templates[name], err = compileTemplate(source); err != nil {
			return fmt.Errorf("chat template %q: %w", name, err)
		}
	}
	return nil
}

func (t *Tokenizer) addEOS(ids ...int32) {
	for _, id := range ids {
		if !slices.Contains(t.eos, id) {
			t.eos = append(t.eos, id)
		}
	}
}

// Close frees the native library's memory. Encoding afterwards panics; decoding still works.
func (t *Tokenizer) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.native != nil {
		t.native.Close()
		t.native = nil
	}
}

// VocabSize is one more than the largest token id. A model's own vocabulary is often padded beyond it.
func (t *Tokenizer) VocabSize() int { return len(t.vocab.end) }

// EOS returns the tokens that end a reply: those of generation_config.json, config.json and the tokenizer's own, each once.
func (t *Tokenizer) EOS() []int32 { return slices.Clone(t.eos) }

// ID returns the id of a token, given as the vocabulary writes it.
func (t *Tokenizer) ID(token string) (int32, bool) {
	id, ok := t.vocab.ids[token]
	return id, ok
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read %s: not a regular file", path)
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("read %s: %d bytes, more than the %d a tokenizer file may have", path, info.Size(), maxFile)
	}
	return os.ReadFile(path)
}

// readJSON reads a file that may be missing.
func readJSON(path string, into any) error {
	data, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return nil
}
