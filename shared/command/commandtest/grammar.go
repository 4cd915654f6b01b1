package commandtest

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"slipway/shared/command"
)

// verbs are the last words of commands that manage a noun; acts are the last words of other commands on it.
var (
	verbs = []string{"create", "list", "show", "set", "delete"}
	acts  = []string{"check", "reference", "schema", "explain", "plan", "apply", "sync", "withdraw", "redeliver", "pushbits"}
)

// Exceptions lists the commands that are exempt from a rule of the grammar.
type Exceptions struct {
	// Config commands need no configuration.
	Config []string
	// Data commands print nothing that a program would read, except for a sentence.
	Data []string
	// File commands have an argument that is a file other than the configuration.
	File []string
}

// shared are flags that mean the same in each command that has them.
var shared = map[string]struct{ shorthand, kind string }{
	"config": {"c", "string"}, "dry-run": {"d", "bool"}, "json": {"", "bool"}, "yes": {"y", "bool"}, "quiet": {"q", "bool"},
	"url": {"", "string"}, "password-stdin": {"", "bool"}, "age": {"", "duration"}, "grace": {"", "duration"}, "wait": {"", "duration"}, "expires": {"", "duration"},
}

// Grammar checks that all commands follow the rules of CONTRIBUTING.md.
func (p Program) Grammar(t *testing.T, spared Exceptions) {
	t.Helper()
	root := p.Root()
	command.Complete(root)
	for _, cmd := range commands(root) {
		name := strings.TrimPrefix(cmd.CommandPath(), root.Name()+" ")
		words := strings.Fields(name)
		if last := words[len(words)-1]; len(words) > 1 && !cmd.HasSubCommands() && !slices.Contains(verbs, last) && !slices.Contains(acts, last) {
			t.Errorf("%s: %s is no verb", name, last)
		}
		if len(words) == 1 && cmd.GroupID == "" {
			t.Errorf("%s: the help lists it in no group", name)
		}
		help(t, name, cmd)
		if cmd.HasSubCommands() && !cmd.Flags().HasFlags() {
			continue
		}
		flags(t, name, cmd, spared)
		arguments(t, name, cmd, spared)
	}
	p.unknownWords(t, root)
}

// help checks the length of lines.
func help(t *testing.T, name string, cmd *cobra.Command) {
	t.Helper()
	if n := utf8.RuneCountInString(cmd.Short); n == 0 || n > 72 || strings.HasSuffix(cmd.Short, ".") {
		t.Errorf("%s: the short help has %d characters or ends with a full stop", name, n)
	}
	for line := range strings.SplitSeq(cmd.Long+"\n"+cmd.UsageString(), "\n") {
		if utf8.RuneCountInString(line) > 100 && !strings.Contains(cmd.Example, line) {
			t.Errorf("%s: a line of its help is too long: %s", name, line)
		}
	}
}

func flags(t *testing.T, name string, cmd *cobra.Command, spared Exceptions) {
	t.Helper()
	has := func(flag string) bool { return cmd.Flags().Lookup(flag) != nil }
	last := name[strings.LastIndexByte(name, ' ')+1:]
	if has("config") == slices.Contains(spared.Config, name) {
		t.Errorf("%s has --config: %t", name, has("config"))
	}
	if has("json") == slices.Contains(spared.Data, name) {
		t.Errorf("%s has --json: %t", name, has("json"))
	}
	if slices.Contains([]string{"delete", "apply", "withdraw", "redeliver"}, last) && !has("yes") {
		t.Errorf("%s can't be undone and has no --yes", name)
	}
	if slices.Contains([]string{"apply", "withdraw", "redeliver", "pushbits", "garbage-collect"}, last) && !has("dry-run") {
		t.Errorf("%s changes many things and has no --dry-run", name)
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if want, ok := shared[f.Name]; ok && name != "htpasswd" && (f.Shorthand != want.shorthand || f.Value.Type() != want.kind) {
			t.Errorf("%s: --%s is -%s of the type %s, want -%s, %s", name, f.Name, f.Shorthand, f.Value.Type(), want.shorthand, want.kind)
		}
		if f.Value.Type() == "duration" && f.Value.Set("7d") != nil {
			t.Errorf("%s: --%s takes no days", name, f.Name)
		}
		if f.Value.Type() == "duration" && f.Value.Set((7*24*time.Hour).String()) != nil {
			t.Errorf("%s: --%s takes no hours", name, f.Name)
		}
	})
}

var word = regexp.MustCompile(`[A-Z][A-Z-]+`)

// arguments checks that no argument is the configuration file, which --config names, except in distribution's commands.
func arguments(t *testing.T, name string, cmd *cobra.Command, spared Exceptions) {
	t.Helper()
	known := []string{"NAME", "ID", "USER", "REPOSITORY", "TAG", "DIGEST", "IMAGE", "WHO", "RIGHT", "ENDPOINT", "MESSAGE", "SOURCE", "TARGET", "DATABASE", "FILE"}
	for _, argument := range word.FindAllString(cmd.Use, -1) {
		if !slices.Contains(known, argument) {
			t.Errorf("%s: the argument %s has no meaning that all commands share", name, argument)
		}
		if argument == "FILE" && name != "serve" && name != "garbage-collect" && !slices.Contains(spared.File, name) {
			t.Errorf("%s takes a file as an argument", name)
		}
	}
}

// unknownWords checks that an unknown command or flag is wrong usage, anywhere.
func (p Program) unknownWords(t *testing.T, root *cobra.Command) {
	t.Helper()
	for _, cmd := range append(commands(root), root) {
		words := strings.Fields(cmd.CommandPath())[1:]
		if cmd.HasSubCommands() && p.Run(append(words[:len(words):len(words)], "no-such-word")) != 2 {
			t.Errorf("%s takes an unknown word", cmd.CommandPath())
		}
		if p.Run(append(words[:len(words):len(words)], "--no-such-flag")) != 2 {
			t.Errorf("%s takes an unknown flag", cmd.CommandPath())
		}
	}
}
