package command

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestConfirm(t *testing.T) {
	for answer, want := range map[string]int{"y\n": 0, "Yes\n": 0, "yes": 0, "n\n": refused, "\n": refused, "": refused, "yet\n": refused} {
		var out strings.Builder
		if got := exitCode(ask(strings.NewReader(answer), &out, "Sink the boat?")); got != want || out.String() != "Sink the boat? [y/N] " {
			t.Errorf("%q: %d, %s", answer, got, out.String())
		}
	}
	for args, want := range map[string]int{"": usage, "--yes": 0, "-y": 0} {
		cmd := &cobra.Command{Use: "sink", SilenceErrors: true, SilenceUsage: true, RunE: func(cmd *cobra.Command, _ []string) error { return Confirm(cmd, "Sink the boat?") }}
		YesFlag(cmd)
		cmd.SetArgs(strings.Fields(args))
		cmd.SetIn(strings.NewReader("y\n")) // is no terminal
		cmd.SetErr(io.Discard)
		if got := exitCode(cmd.Execute()); got != want {
			t.Errorf("%q: %d, want %d", args, got, want)
		}
	}
}

func TestExitCodes(t *testing.T) {
	err := errors.New("no")
	for _, tt := range []struct {
		err  error
		want int
	}{
		{nil, 0}, {Usage(nil), 0}, {err, 1}, {Usage(err), 2}, {Refused(err), 3}, {Undelivered(err), 4}, {errors.Join(Refused(err), err), 3},
	} {
		if got := exitCode(tt.err); got != tt.want {
			t.Errorf("%v: %d, want %d", tt.err, got, tt.want)
		}
	}
}

func TestWrap(t *testing.T) {
	text := strings.Repeat("eight  t ", 20) + "end.\n\n  kept as it is"
	got := wrap(text)
	for line := range strings.SplitSeq(got, "\n") {
		if len(line) > helpWidth {
			t.Errorf("%d: %s", len(line), line)
		}
	}
	if strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(text), " ") || !strings.HasSuffix(got, "\n\n  kept as it is") {
		t.Error(got)
	}
}
