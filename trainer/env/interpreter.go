package env

import (
	"context"
	"encoding/json"
	"strings"

	"tandem/trainer/tool"
)

// interpreterSchema is what the template shows of code_interpreter.
const interpreterSchema = `{"type": "function", "function": {"name": "code_interpreter", "description": "Runs a Python program and returns what it prints, or its error. Each call starts afresh: nothing is kept from earlier ones.", "parameters": {"type": "object", "properties": {"code": {"type": "string", "description": "The program. The value of a last expression is shown."}}, "required": ["code"]}}}`

// A Runner runs programs, as *tool.Sandbox does.
type Runner interface {
	Run(ctx context.Context, code string) tool.Result
}

// CodeInterpreter is the tool that runs Python in a sandbox.
func CodeInterpreter(r Runner) Tool {
	return Tool{Name: "code_interpreter", Schema: json.RawMessage(interpreterSchema), Run: func(ctx context.Context, arguments json.RawMessage) Outcome {
		var given map[string]json.RawMessage // a struct would take "Code" for "code"
		var code *string
		if json.Unmarshal(arguments, &given) != nil || json.Unmarshal(given["code"], &code) != nil || code == nil {
			return Outcome{Failure: BadArgument, Text: `code_interpreter takes one argument, "code": a program as a string.`}
		}
		res := r.Run(ctx, *code)
		o := Outcome{Input: *code, Text: strings.TrimRight(res.Text(), "\n"), Seconds: res.Seconds, Err: res.Err}
		if res.Reason != tool.OK {
			o.Failure = string(res.Reason)
		}
		return o
	}}
}
