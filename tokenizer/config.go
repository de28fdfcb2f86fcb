package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// config is what we read of tokenizer_config.json.
type config struct {
	AddedTokens  map[string]addedToken `json:"added_tokens_decoder"`
	ChatTemplate chatTemplates         `json:"chat_template"`

	BOS  tokenText `json:"bos_token"`
	EOS  tokenText `json:"eos_token"`
	UNK  tokenText `json:"unk_token"`
	SEP  tokenText `json:"sep_token"`
	PAD  tokenText `json:"pad_token"`
	CLS  tokenText `json:"cls_token"`
	Mask tokenText `json:"mask_token"`
}

// variables are the names under which templates find the special tokens; transformers leaves out those that are not set.
func (c *config) variables() map[string]string {
	all := map[string]tokenText{"bos_token": c.BOS, "eos_token": c.EOS, "unk_token": c.UNK, "sep_token": c.SEP,
		"pad_token": c.PAD, "cls_token": c.CLS, "mask_token": c.Mask}
	set := map[string]string{}
	for name, text := range all {
		if text != "" {
			set[name] = string(text)
		}
	}
	return set
}

// merge adds the tokens that only tokenizer_config.json names, as transformers does.
func (c *config) merge(added []addedToken) ([]addedToken, error) {
	all := slices.Clone(added)
	for key, a := range c.AddedTokens {
		id, err := strconv.ParseInt(key, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("tokenizer_config.json: added_tokens_decoder has the id %q, which is not a number", key)
		}
		a.ID = id
		same := func(b addedToken) bool { return b.ID == a.ID && b.Content == a.Content }
		if !slices.ContainsFunc(all, same) {
			all = append(all, a)
		}
	}
	return all, nil
}

// tokenText is a token given as text, as an object with its content, or as null.
type tokenText string

func (t *tokenText) UnmarshalJSON(data []byte) error {
	var object struct {
		Content *string `json:"content"`
	}
	if json.Unmarshal(data, &object) == nil {
		if object.Content != nil {
			*t = tokenText(*object.Content)
		}
		return nil
	}
	return json.Unmarshal(data, (*string)(t))
}

// tokenIDs is one id, several, or null.
type tokenIDs []int32

func (t *tokenIDs) UnmarshalJSON(data []byte) error {
	var one *int32
	if json.Unmarshal(data, &one) == nil {
		if one != nil {
			*t = tokenIDs{*one}
		}
		return nil
	}
	return json.Unmarshal(data, (*[]int32)(t))
}

// chatTemplates holds templates by name. Older files list a "default" and a "tool_use"; most give one text, the "default".
type chatTemplates map[string]string

func (c *chatTemplates) UnmarshalJSON(data []byte) error {
	var named []struct {
		Name     string `json:"name"`
		Template string `json:"template"`
	}
	*c = chatTemplates{}
	if json.Unmarshal(data, &named) == nil {
		for _, n := range named {
			(*c)[n.Name] = n.Template
		}
		return nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	(*c)["default"] = text
	return nil
}
