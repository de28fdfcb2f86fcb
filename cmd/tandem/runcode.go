package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"tandem/trainer/tool"
)

// newRunCodeCmd makes `tandem run-code`: one program, run as a rollout would run it.
func newRunCodeCmd() *cobra.Command {
	var cfg tool.Config
	cmd := &cobra.Command{
		Use:   "run-code FILE|-",
		Short: "run a Python program in the sandbox and print its result as JSON",
		Long: "Runs a program (- is standard input) in the sandbox exactly as a tool call of a rollout would, and prints one JSON\n" +
			"object: output, error, exit, reason, seconds. The command itself fails only when the sandbox does not run.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			code, err := readProgram(args[0], cmd.InOrStdin())
			if err != nil {
				return err
			}
			return runCode(cmd, cfg, code)
		},
	}
	cmd.Flags().StringVar(&cfg.Python, "python", "", "interpreter, or a virtual environment's (default python3 on PATH)")
	cmd.Flags().DurationVar(&cfg.Wall, "timeout", 20*time.Second, "time the program may take")
	cmd.Flags().BoolVar(&cfg.Unsafe, "unsafe-sandbox", false, "go on without the layers of isolation that this machine lacks")
	return cmd
}

func readProgram(name string, stdin io.Reader) (string, error) {
	if name == "-" {
		b, err := io.ReadAll(stdin)
		return string(b), err
	}
	b, err := os.ReadFile(name)
	return string(b), err
}

func runCode(cmd *cobra.Command, cfg tool.Config, code string) (err error) {
	s, err := tool.New(cfg)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := s.Close(); err == nil {
			err = closeErr
		}
	}()
	for _, layer := range s.Missing() {
		fmt.Fprintf(cmd.ErrOrStderr(), "without %s (%s): %s\n", layer.Name, layer.Detail, layer.Lost)
	}
	r := s.Run(cmd.Context(), code)
	if r.Err != nil {
		return r.Err
	}
	out := json.NewEncoder(cmd.OutOrStdout())
	out.SetEscapeHTML(false)
	return out.Encode(r)
}
