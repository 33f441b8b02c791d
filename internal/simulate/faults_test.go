package simulate

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"poold/internal/cli"
	"poold/internal/testkit"
)

// consoleTo returns a console without environment variables.
func consoleTo(out io.Writer) *cli.Console {
	return &cli.Console{Lookup: func(string) (string, bool) { return "", false }, Stdout: out, Stderr: io.Discard}
}

// run runs `poold simulate` and returns the output.
func run(ctx context.Context, args ...string) (printed string, err error) {
	var out strings.Builder
	err = runTo(ctx, &out, args...)
	return out.String(), err
}

func runTo(ctx context.Context, out io.Writer, args ...string) error {
	command := Command(consoleTo(out))
	command.SilenceErrors, command.SilenceUsage = true, true
	command.SetArgs(args)
	return command.ExecuteContext(ctx)
}

// countdown is a context that ends at the n-th call of its method Err.
type countdown struct {
	context.Context
	looks, ends int
}

func (c *countdown) Err() error {
	if c.looks++; c.looks >= c.ends {
		return context.Canceled
	}
	return nil
}

// An interrupt ends a run and a comparison. An interrupted command prints nothing.
func TestInterruptPrintsNothing(t *testing.T) {
	testkit.WithoutRace(t)
	model := []string{"--demand", "poisson:0.5", "--length", "40m", "--refill", "adaptive", "--depth", "30", "--min", "0",
		"--miss-cost", "0.1"}
	for name, more := range map[string][]string{"one run": {"--hit-rate", "0.5"}, "JSON": {"--json"},
		"comparison": {"--compare"}} {
		args := append(slices.Clone(model), more...)
		whole := &countdown{t.Context(), 0, 1 << 30}
		want, err := run(whole, args...)
		if err != nil || want == "" || whole.looks < 1 {
			t.Fatalf("%s: %d looks, %v", name, whole.looks, err)
		}
		for _, n := range []int{1, whole.looks/2 + 1, whole.looks} {
			if printed, err := run(&countdown{t.Context(), 0, n}, args...); !errors.Is(err, context.Canceled) || printed != "" {
				t.Errorf("%s, interrupted at look %d of %d: %v\n%s", name, n, whole.looks, err, printed)
			}
		}
	}
}

// fullDisk is a disk without free space.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// An error names the file that cannot be used, and nothing is printed.
func TestErrorsNameTheFile(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace")
	testkit.NoError(t, os.WriteFile(trace, []byte("1\n2\nx\n"), 0o600))
	for args, says := range map[string]string{
		"--target login --demand poisson:1 --config /none.yaml": "/none.yaml: the file cannot be read: ",
		"--depth 5 --trace " + trace:                            trace + ": ",
	} {
		if printed, err := run(t.Context(), strings.Fields(args)...); err == nil || !strings.HasPrefix(err.Error(), says) ||
			printed != "" {
			t.Errorf("%s: %v\n%s", args, err, printed)
		}
	}
}

// An error of the output is reported, with or without --json and --compare.
func TestFullDisk(t *testing.T) {
	const demand = "--depth 5 --demand poisson:0.1 --length 10m"
	for _, more := range []string{"", " --json", " --compare", " --compare --json"} {
		testkit.ErrorIs(t, more, runTo(t.Context(), fullDisk{}, strings.Fields(demand+more)...), syscall.ENOSPC)
	}
}
