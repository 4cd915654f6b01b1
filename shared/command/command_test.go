package command_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"slipway/shared/build"
	"slipway/shared/command"
	"slipway/shared/config"
)

type settings struct {
	Port int `key:"port" doc:"Where it listens."`
}

// program is one with a command that fails and a configuration.
func program(out, errout io.Writer) *cobra.Command {
	root := command.New(build.Of("boat", "v1.2.3", "abc", "today"), "Carry things", strings.NewReader(""), out, errout)
	carry := &cobra.Command{Use: "carry THING", Args: cobra.ExactArgs(1), RunE: func(*cobra.Command, []string) error { return errors.New("too heavy") }}
	var d time.Duration
	command.DurationFlag(carry.Flags(), &d, "for", 0, "how long")
	carry.Flags().Bool("far", false, "to the other side")
	look := command.Config(command.Configuration{
		Service:  "boat",
		Variable: "BOAT_CONFIG", Path: "/etc/boat.yml",
		Load: func(file string) (any, *config.Report, error) {
			cfg := settings{Port: 80}
			report, err := config.Load(&cfg, config.Options{File: file, Prefix: "BOAT"})
			return &cfg, report, err
		},
		Reference: func(w io.Writer) error {
			_, err := io.WriteString(w, "# All of it\n")
			return err
		},
		Schema: func(w io.Writer) error { return config.JSONSchema(w, &settings{}) },
	})
	hold := &cobra.Command{Use: "hold", Short: "Hold what is carried"}
	hold.AddCommand(&cobra.Command{Use: "release", SuggestFor: []string{"drop"}, RunE: func(*cobra.Command, []string) error { return nil }})
	root.AddCommand(carry, hold, look, command.Version(build.Of("boat", "v1.2.3", "abc", "today")), command.Manual(build.Of("boat", "v1.2.3", "abc", "today")))
	command.Examples{
		"carry":        {"boat carry stone", "boat carry --far stone"},
		"config check": {"boat config check -c boat.yml", "boat config check --config boat.yml"},
		"config show":  {"boat config show -c boat.yml"},
	}.Set(root)
	return root
}

func TestRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "boat.yml")
	if err := os.WriteFile(file, []byte("port: 81\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(t.TempDir(), "bad.yml")
	if err := os.WriteFile(bad, []byte("prt: 81\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args        string
		code        int
		out, errout string
	}{
		{"", 0, "boat: Carry things\n\n  boat config check --config FILE", ""},
		{"--help", 0, "Available Commands:", ""},
		{"carry --help", 0, "Examples:\n  boat carry stone\n  boat carry --far stone\n", ""},
		{"config --help", 0, "Examples:\n  boat config check -c boat.yml\n  boat config show -c boat.yml\n", ""},
		{"manual", 0, "\n## boat config check\n", ""},
		{"manual", 0, "```sh\nboat carry stone\nboat carry --far stone\n```\n", ""},
		{"--version", 0, "boat slipway/boat v1.2.3\n", ""},
		{"version", 0, "boat slipway/boat v1.2.3\ncommit abc of today", ""},
		{"version --json", 0, `"version": "v1.2.3"`, ""},
		{"carry stone", 1, "", "boat: too heavy\n"},
		{"carry", 2, "", "boat: THING is missing; usage: boat carry THING [flags]\n"},
		{"carry stone oar", 2, "", "boat: unexpected argument \"oar\"; usage: boat carry THING [flags]\n"},
		{"carry stone --for 1d", 1, "", "boat: too heavy\n"},
		{"carry stone --for 1w", 2, "", `boat: --for: "1w" is not a duration such as 10s, 5m, 12h or 7d; usage: boat carry THING [flags]`},
		{"carry stone --for 24", 2, "", `boat: --for: "24" is not a duration such as 10s, 5m, 12h or 7d; usage: boat carry THING [flags]`},
		{"carry stone --for long", 2, "", `boat: --for: "long" is not a duration such as 10s, 5m, 12h or 7d; usage: boat carry THING [flags]`},
		{"carry stone --near", 2, "", "boat: unknown flag: --near (did you mean --far?); usage: boat carry THING [flags]\n"},
		{"crary", 2, "", `boat: unknown command "crary" for "boat" (did you mean carry?)`},
		{"config chekc", 2, "", `boat: unknown command "chekc" for "boat config" (did you mean check?); the commands are in: boat config --help`},
		{"hold", 0, "Hold what is carried", ""},
		{"hold bogus file", 2, "", `boat: unknown command "bogus" for "boat hold"; the commands are in: boat hold --help`},
		{"hold drop", 2, "", `(did you mean release?)`},
		{"completion bogus", 2, "", `boat: unknown command "bogus" for "boat completion"`},
		{"completion bash", 0, "bash completion", ""},
		{"help bogus", 2, "", `boat: unknown command "bogus" for "boat"`},
		{"help config chekc", 2, "", `(did you mean check?)`},
		{"help config check", 0, "boat config check", ""},
		{"config what", 2, "", `the commands are in: boat config --help`},
		{"config", 0, "Check or show the configuration", ""},
		{"config check -c " + file, 0, "the configuration is valid\n", ""},
		{"config check --config " + file, 0, "the configuration is valid\n", ""},
		{"config check -c " + bad, 1, "", "prt"},
		{"config check boat.yml", 2, "", "unexpected argument \"boat.yml\"; a configuration is given with --config; usage: boat config check [flags]"},
		{"config show --config " + file, 0, "port: 81", ""},
		{"config show", 0, "port: 80", ""},
		{"config show -c " + bad, 1, "", "prt"},
		{"config check --help", 0, "as `boat serve` would, from the file of --config", ""},
		{"config reference", 0, "# All of it\n", ""},
		{"config schema", 0, "\"properties\": {\n    \"port\": {", ""},
	} {
		var out, errout bytes.Buffer
		code := command.Run(t.Context(), program(&out, &errout), strings.Fields(tt.args))
		if code != tt.code || !strings.Contains(out.String(), tt.out) || !strings.Contains(errout.String(), tt.errout) || (code == 0) != (errout.Len() == 0) {
			t.Errorf("boat %s: %d %q %q, want %d %q %q", tt.args, code, out.String(), errout.String(), tt.code, tt.out, tt.errout)
		}
	}
}

func TestExamples_OfNoCommand_Panic(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("examples of a command that does not exist are taken")
		}
	}()
	command.Examples{"crary": {"boat crary", "boat crary"}}.Set(program(io.Discard, io.Discard))
}
