package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"tandem/tokenizer"
	"tandem/trainer"
)

// A promptRow is a line of what generate reads: one of prompt, messages and prompt_tokens.
type promptRow struct {
	Prompt       *string             `json:"prompt"`
	Messages     []tokenizer.Message `json:"messages"`
	Tools        []json.RawMessage   `json:"tools"`
	PromptTokens []int32             `json:"prompt_tokens"`
}

// A sampleRow is a line of what generate writes.
type sampleRow struct {
	Prompt       int            `json:"prompt"`
	Member       int            `json:"member"`
	PromptTokens []int32        `json:"prompt_tokens"`
	Tokens       []int32        `json:"tokens"`
	LogProbs     trainer.Floats `json:"logprobs"`
	Text         string         `json:"text"`
	Stop         string         `json:"stop"`
	Top          []topRow       `json:"top,omitempty"`
}

// A topRow is the most probable tokens in one place.
type topRow struct {
	Tokens   []int32        `json:"tokens"`
	LogProbs trainer.Floats `json:"logprobs"`
}

// openIn is a file, or standard input for "-".
func openIn(path string) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(os.Stdin), nil
	}
	return os.Open(path)
}

// An outFile is where rows are written: a file, or standard output for "-".
type outFile struct {
	*bufio.Writer
	file *os.File
}

func openOut(path string) (*outFile, error) {
	f := os.Stdout
	if path != "-" {
		var err error
		if f, err = os.Create(path); err != nil {
			return nil, err
		}
	}
	return &outFile{bufio.NewWriter(f), f}, nil
}

// row writes v as a line.
func (o *outFile) row(v any) error {
	e := json.NewEncoder(o)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// Close reports what a full disk swallowed.
func (o *outFile) Close() error {
	err := o.Flush()
	if o.file != os.Stdout {
		if e := o.file.Close(); err == nil {
			err = e
		}
	}
	return err
}

// eachLine calls f for every line of JSON; empty lines count and are passed over.
func eachLine(r io.Reader, f func(n int, line []byte) error) error {
	br := bufio.NewReaderSize(r, 1<<16)
	for n := 1; ; n++ {
		line, err := br.ReadBytes('\n')
		if len(line) > 0 && len(bytes.TrimSpace(line)) > 0 {
			if err := f(n, line); err != nil {
				return fmt.Errorf("line %d: %w", n, err)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
