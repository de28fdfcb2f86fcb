package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tinyWith copies the small tokenizer into a new directory and changes a file of it; an empty text removes the file.
func tinyWith(t *testing.T, file string, change func(string) string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/tiny")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, file)
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	text := change(string(old))
	if text == "" {
		err = os.RemoveAll(path)
	} else {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// replace is a change of one place.
func replace(old, new string) func(string) string {
	return func(text string) string {
		if strings.Count(text, old) < 1 {
			panic(fmt.Sprintf("%q is not in the file", old))
		}
		return strings.Replace(text, old, new, 1)
	}
}

func become(text string) func(string) string { return func(string) string { return text } }

// TestLoadHostile has broken directories: each must be refused with a sentence that names the file and the fault.
func TestLoadHostile(t *testing.T) {
	const main, config = "tokenizer.json", "tokenizer_config.json"
	for _, c := range []struct {
		name, file string
		change     func(string) string
		want       []string
	}{
		{"no tokenizer.json", main, become(""), []string{main, "no such file"}},
		{"not JSON", main, become("{"), []string{main, "JSON"}},
		{"empty object", main, become("{}"), []string{main, "pre_tokenizer"}},
		{"not UTF-8", main, replace("Isolated", "\xf7"), []string{main, "UTF-8"}},
		{"no decoder", main, replace("\"decoder\": {", "\"other\": {"), []string{"no decoder"}},
		{"no merges", main, replace(`"merges":`, `"other":`), []string{"merges are missing"}},
		{"prefix", main, replace(`"continuing_subword_prefix": null`, `"continuing_subword_prefix": "long"`), []string{"continuing_subword_prefix"}},
		{"a list", main, become("[]"), []string{main}},
		{"not BPE", main, replace(`"type": "BPE"`, `"type": "Unigram"`), []string{"Unigram", "BPE"}},
		{"other decoder", main, replace("\"decoder\": {\n\"type\": \"ByteLevel\"", "\"decoder\": {\n\"type\": \"Metaspace\""), []string{"Metaspace"}},
		{"other normalizer", main, replace(`"type": "NFC"`, `"type": "Precompiled"`), []string{"normalizer", "Precompiled"}},
		{"other pre-tokenizer", main, replace(`"type": "Split"`, `"type": "Metaspace"`), []string{"pre_tokenizer", "Metaspace"}},
		{"bad pattern", main, replace(`"Regex": "(?i:`, `"Regex": "(((?i:`), []string{main}},
		{"dropout", main, replace(`"dropout": null`, `"dropout": 0.5`), []string{"dropout"}},
		{"vocab is a list", main, replace(`"vocab": {`, `"vocab": [], "old": {`), []string{"model.vocab"}},
		{"merge of an unknown token", main, replace("\"merges\": [", "\"merges\": [[\"\u0416\", \"\u0416\"],"), []string{main}},
		{"two tokens, one id", main, replace(`"\"": 1`, `"\"": 0`), []string{"share the id 0"}},
		{"negative id", main, replace(`"\"": 1`, `"\"": -1`), []string{"id -1"}},
		{"huge id", main, replace(`"\"": 1`, `"\"": 4000000000`), []string{"id 4000000000"}},
		{"id beyond 64 bits", main, replace(`"\"": 1`, `"\"": 99999999999999999999`), []string{main}},
		{"added token takes an id", main, replace(`"id": 420`, `"id": 5`), []string{"share the id 5"}},
		{"huge added id", main, replace(`"id": 420`, `"id": 3000000000`), []string{"3000000000"}},
		{"lstrip", main, replace(`"lstrip": false`, `"lstrip": true`), []string{"lstrip"}},
		{"NUL in a name", main, replace(`"type": "BPE"`, `"type": "B\u0000"`), []string{"NUL"}},
		{"config is not JSON", config, become("{,"), []string{config}},
		{"template is a number", config, become(`{"chat_template": 3}`), []string{config}},
		{"token is a number", config, become(`{"eos_token": 3}`), []string{config}},
		{"added id is no number", config, become(`{"added_tokens_decoder": {"x": {"content": "y"}}}`), []string{"added_tokens_decoder"}},
		{"added in both, differently", config, become(`{"added_tokens_decoder": {"421": {"content": "<other>"}}}`), []string{"share the id 421"}},
		{"template does not parse", "chat_template.jinja", become("{% for %}"), []string{"chat template", "without in"}},
		{"end token is text", "generation_config.json", become(`{"eos_token_id": "x"}`), []string{"generation_config.json"}},
		{"config.json is a list", "config.json", become(`[1]`), []string{"config.json"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := tinyWith(t, c.file, c.change)
			tok, err := Load(dir)
			if err == nil {
				tok.Close()
				t.Fatal("loaded")
			}
			for _, want := range append(c.want, dir) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}

func TestLoadOddPlaces(t *testing.T) {
	dir := tinyWith(t, "tokenizer.json", become(""))
	if err := os.Mkdir(filepath.Join(dir, "tokenizer.json"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a directory for a file: %v", err)
	}
	if _, err := Load(filepath.Join(dir, "nowhere")); err == nil {
		t.Error("a missing directory loads")
	}
}

func TestLoadVariants(t *testing.T) {
	t.Run("no template", func(t *testing.T) {
		tok := openTokenizer(t, tinyWith(t, "chat_template.jinja", become("")))
		_, err := tok.Chat([]Message{{Role: "user"}}, ChatOptions{})
		if !errors.Is(err, ErrNoTemplate) {
			t.Errorf("got %v, want ErrNoTemplate", err)
		}
	})
	t.Run("tokenizer.json alone", func(t *testing.T) {
		dir := tinyWith(t, "tokenizer_config.json", become(""))
		os.Remove(filepath.Join(dir, "generation_config.json"))
		if tok := openTokenizer(t, dir); len(tok.EOS()) != 0 {
			t.Errorf("end tokens %v out of nowhere", tok.EOS())
		}
	})
	t.Run("end tokens of all files, each once", func(t *testing.T) {
		tok := openTokenizer(t, tinyWith(t, "config.json", become(`{"eos_token_id": 425}`)))
		if want := []int32{422, 420, 425}; !slices.Equal(tok.EOS(), want) {
			t.Errorf("got %v, want %v", tok.EOS(), want)
		}
	})
	t.Run("null end token", func(t *testing.T) {
		tok := openTokenizer(t, tinyWith(t, "generation_config.json", become(`{"eos_token_id": null}`)))
		if want := []int32{422}; !slices.Equal(tok.EOS(), want) {
			t.Errorf("got %v, want %v", tok.EOS(), want)
		}
	})
	t.Run("named templates, tokens as objects", func(t *testing.T) {
		dir := tinyWith(t, "tokenizer_config.json", become(`{"eos_token": {"content": "<|im_end|>"}, "bos_token": null, "chat_template":
			[{"name": "default", "template": "plain {{ eos_token }}{{ bos_token is defined }}"}, {"name": "tool_use", "template": "tools {{ tools | length }}"}]}`))
		os.Remove(filepath.Join(dir, "chat_template.jinja"))
		tok := openTokenizer(t, dir)
		for _, c := range []struct {
			tools []json.RawMessage
			want  string
		}{{nil, "plain <|im_end|>False"}, {[]json.RawMessage{[]byte("{}")}, "tools 1"}} {
			if got, err := tok.Chat([]Message{{Role: "user"}}, ChatOptions{Tools: c.tools}); got != c.want || err != nil {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		}
	})
	t.Run("truncation and padding are not applied", func(t *testing.T) {
		tok := openTokenizer(t, tinyWith(t, "tokenizer.json", replace(`"truncation": null`,
			`"truncation": {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}`)))
		if ids := tok.Encode("The quick brown fox 123", ParseSpecial); len(ids) < 5 {
			t.Errorf("only %d tokens", len(ids))
		}
	})
	t.Run("a token that only tokenizer_config.json has", func(t *testing.T) {
		tok := openTokenizer(t, tinyWith(t, "tokenizer_config.json", become(`{"added_tokens_decoder": {"430": {"content": "<new>", "special": true}}}`)))
		if ids := tok.Encode("a<new>", ParseSpecial); len(ids) != 2 || ids[1] != 430 || tok.Decode(ids, false) != "a" {
			t.Errorf("got %v", ids)
		}
	})
}

// FuzzLoad changes bytes of tokenizer.json: the library behind it is not Go and could end the process.
func FuzzLoad(f *testing.F) {
	data, err := os.ReadFile("testdata/tiny/tokenizer.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint16(700), []byte("null"))
	f.Add(uint16(1500), []byte(`"x":`))
	f.Add(uint16(2100), []byte{})
	f.Fuzz(func(t *testing.T, at uint16, change []byte) {
		i := int(at) % len(data)
		broken := slices.Concat(data[:i], change, data[min(len(data), i+len(change)):])
		tok, err := parse(broken, &config{})
		if err != nil {
			return
		}
		defer tok.Close()
		tok.Encode("The quick brown fox 12 é \x00 <think>", ParseSpecial)
	})
}
