// Command tandem samples from and trains Qwen3 on one copy of the weights.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newRootCmd().ExecuteContext(ctx); err != nil {
		var code exitCode
		if errors.As(err, &code) {
			os.Exit(int(code))
		}
		fmt.Fprintln(os.Stderr, "tandem:", err)
		os.Exit(2)
	}
}

// exitCode ends the program after the command has said why.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit status %d", int(c)) }

func newRootCmd() *cobra.Command {
	root := &cobra.Command{
		Use:           "tandem",
		Short:         "Sample from and train Qwen3 on one copy of the weights",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(
		newTrainCmd(), newGenerateCmd(), newScoreCmd(), newChatCmd(), newPlanCmd(), newDoctorCmd(), newInitModelCmd(), newVersionCmd(),
	)
	return root
}
