package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"slipway/deploy/internal/harness"
	"slipway/shared/programtest"
)

// program is one of ours with the help of each of its commands.
type program struct {
	path string
	help map[string]string // by command: "", "config check"
}

var listed = regexp.MustCompile(`(?m)^  ([a-z][a-z-]*) +\S`)

func (p *program) helpOf(t *testing.T, command string) string {
	t.Helper()
	if text, known := p.help[command]; known {
		return text
	}
	out, err := exec.CommandContext(t.Context(), p.path, append(strings.Fields(command), "--help")...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s --help: %v\n%s", p.path, command, err, out)
	}
	p.help[command] = string(out)
	return string(out)
}

// children are the commands below one.
func (p *program) children(t *testing.T, command string) []string {
	_, rest, found := strings.Cut(p.helpOf(t, command), "Available Commands:")
	if !found {
		return nil
	}
	rest, _, _ = strings.Cut(rest, "\nFlags:")
	var names []string
	for _, m := range listed.FindAllStringSubmatch(rest, -1) {
		names = append(names, m[1])
	}
	return names
}

// takesArguments tells whether a command with others below it does something by
// itself.
func (p *program) takesArguments(t *testing.T, command string) bool {
	usage := regexp.MustCompile(`(?m)^  \w+` + regexp.QuoteMeta(strings.TrimRight(" "+command, " ")) + ` (\S.*) \[flags\]$`)
	return usage.MatchString(p.helpOf(t, command))
}

// check tells what is wrong with the words of a command line, or nothing.
func (p *program) check(t *testing.T, words []string) string {
	command := ""
	for len(words) > 0 && slices.Contains(p.children(t, command), words[0]) {
		command = strings.TrimSpace(command + " " + words[0])
		words = words[1:]
	}
	if kids := p.children(t, command); len(kids) > 0 && len(words) > 0 && !strings.HasPrefix(words[0], "-") && !p.takesArguments(t, command) {
		return "there is no command " + strings.TrimSpace(command+" "+words[0])
	}
	for _, word := range words {
		flag, _, _ := strings.Cut(strings.Trim(word, "[],"), "=")
		if len(flag) < 2 || flag[0] != '-' || flag == "--" {
			continue
		}
		if !regexp.MustCompile(`(?m)(^|[ ,])` + regexp.QuoteMeta(flag) + `([ ,=\n]|$)`).MatchString(p.helpOf(t, command)) {
			return command + " has no flag " + flag
		}
	}
	return ""
}

// lineOf is the command line of ours that text begins with, as words; nil for
// another.
func lineOf(text string) []string {
	line, _, _ := strings.Cut(text, "\n")
	words := strings.Fields(line)
	for len(words) > 0 && (words[0] == "sudo" || regexp.MustCompile(`^[A-Z_]+=`).MatchString(words[0])) {
		words = words[1:]
	}
	for i, word := range words {
		if word == "|" || word == "&&" || word == ">" || word == "#" || word == "||" || word == ";" {
			words = words[:i]
			break
		}
	}
	if len(words) < 2 {
		return nil
	}
	words[0] = strings.TrimPrefix(words[0], "bin/")
	return words
}

// TestCommands: the command lines of ours in text and in blocks are ones that
// the programs know.
func TestCommands(t *testing.T) {
	programs := map[string]*program{}
	for _, name := range []string{"registry", "relay"} {
		programs[name] = &program{path: harness.Binary(t, name), help: map[string]string{}}
	}
	checked := 0
	for _, p := range pages(t) {
		var lines []string
		for _, span := range codeSpan.FindAllString(p.prose, -1) {
			lines = append(lines, strings.Trim(span, "`"))
		}
		for _, b := range p.blocks {
			if b.lang == "sh" {
				lines = append(lines, strings.Split(strings.ReplaceAll(b.text, "\\\n", " "), "\n")...)
			}
		}
		for _, line := range lines {
			words := lineOf(line)
			if words == nil || programs[words[0]] == nil {
				continue
			}
			checked++
			if wrong := programs[words[0]].check(t, words[1:]); wrong != "" {
				t.Errorf("%s: %q: %s", p.path, line, wrong)
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d command lines were found", checked)
	}
}

// TestCheck: what TestCommands looks for it finds.
func TestCheck(t *testing.T) {
	p := &program{path: harness.Binary(t, "registry"), help: map[string]string{}}
	for line, want := range map[string]string{
		"registry config check FILE":                  "",
		"A=b registry garbage-collect --dry-run x":    "",
		"registry garbage-collect [FILE] -m":          "",
		"registry serve config.yml # comment --here":  "",
		"registry collect x":                          "there is no command collect",
		"registry config chek x":                      "there is no command config chek",
		"registry garbage-collect --dry-rum FILE":     "garbage-collect has no flag --dry-rum",
		"registry config show --all | grep --nothing": "config show has no flag --all",
	} {
		if got := p.check(t, lineOf(line)[1:]); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// TestTargets: what `make` is told to make is in the Makefile.
func TestTargets(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(programtest.Root(t), "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pages(t) {
		for _, span := range codeSpan.FindAllString(p.prose, -1) {
			words := strings.Fields(strings.Trim(span, "`"))
			if len(words) == 2 && words[0] == "make" && !regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(words[1])+`:`).Match(text) {
				t.Errorf("%s: the Makefile has no %s", p.path, words[1])
			}
		}
	}
}
