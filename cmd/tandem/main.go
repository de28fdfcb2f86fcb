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
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	err := newRootCmd().ExecuteContext(ctx)
	var code exitCode
	switch {
	case err == nil:
		return
	case errors.As(err, &code):
		os.Exit(int(code))
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "tandem: interrupted")
		os.Exit(interrupted)
	}
	fmt.Fprintln(os.Stderr, "tandem:", err)
	os.Exit(2)
}

// interrupted is the exit status after Ctrl-C, as shells have it.
const interrupted = 130

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
		newTrainCmd(), newExportCmd(), newReportCmd(), newCompareCmd(), newGenerateCmd(), newScoreCmd(), newChatCmd(), newGradeCmd(), newEvalCmd(), newPlanCmd(), newDoctorCmd(),
		newInitModelCmd(), newRunCodeCmd(), newBenchCmd(), newVersionCmd(),
	)
	return root
}
