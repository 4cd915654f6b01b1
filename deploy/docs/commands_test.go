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
	"slipway/deploy/internal/metrics"
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
	if p.help[command] == "" {
		out, err := exec.CommandContext(t.Context(), p.path, append(strings.Fields(command), "--help")...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s --help: %v\n%s", p.path, command, err, out)
		}
		p.help[command] = string(out)
	}
	return p.help[command]
}

// children are the commands below one.
func (p *program) children(t *testing.T, command string) (names []string) {
	_, rest, _ := strings.Cut(p.helpOf(t, command), "Available Commands:")
	rest, _, _ = strings.Cut(rest, "\nFlags:")
	for _, m := range listed.FindAllStringSubmatch(rest, -1) {
		names = append(names, m[1])
	}
	return names
}

// check returns what is wrong with the words of a command line, or nothing.
func (p *program) check(t *testing.T, words []string) string {
	command := ""
	for len(words) > 0 && slices.Contains(p.children(t, command), words[0]) {
		command = strings.TrimSpace(command + " " + words[0])
		words = words[1:]
	}
	// A command with others below it may take arguments by itself.
	arguments := regexp.MustCompile(`(?m)^  \w+` + regexp.QuoteMeta(strings.TrimRight(" "+command, " ")) + ` (\S.*) \[flags\]$`)
	if len(p.children(t, command)) > 0 && len(words) > 0 && !strings.HasPrefix(words[0], "-") && !arguments.MatchString(p.helpOf(t, command)) {
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

var (
	variable  = regexp.MustCompile(`^[A-Z_]+=`)
	separator = []string{"|", "&&", "||", ">", ";", "#", "&"}
)

// wordsOf are the words of the first command in a line, without sudo and variables.
func wordsOf(line string) []string {
	words := strings.Fields(line)
	for len(words) > 0 && (words[0] == "sudo" || variable.MatchString(words[0])) {
		words = words[1:]
	}
	if end := slices.IndexFunc(words, func(word string) bool { return slices.Contains(separator, word) }); end >= 0 {
		words = words[:end]
	}
	if len(words) > 0 {
		words[0] = strings.TrimPrefix(words[0], "bin/")
	}
	return words
}

// TestCommands: the command lines of registry, relay and make, in the text and in
// blocks, are ones that exist.
func TestCommands(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(programtest.Root(t), "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	programs := map[string]*program{}
	for _, name := range []string{"registry", "relay"} {
		programs[name] = &program{path: harness.Binary(t, name), help: map[string]string{}}
	}
	if programs["registry"].check(t, []string{"config", "chek"}) == "" || programs["registry"].check(t, []string{"config", "check", "--no-such"}) == "" {
		t.Error("the check finds no mistakes")
	}
	checked := 0
	for _, p := range pages(t) {
		var lines []string
		for _, span := range codeSpan.FindAllString(p.prose, -1) {
			line, _, _ := strings.Cut(strings.Trim(span, "`"), "\n")
			lines = append(lines, line)
		}
		for _, b := range p.blocks {
			if b.lang == "sh" {
				lines = append(lines, strings.Split(strings.ReplaceAll(b.text, "\\\n", " "), "\n")...)
			}
		}
		for _, line := range lines {
			words := wordsOf(line)
			switch {
			case len(words) < 2:
			case programs[words[0]] != nil:
				checked++
				if wrong := programs[words[0]].check(t, words[1:]); wrong != "" {
					t.Errorf("%s: %q: %s", p.path, line, wrong)
				}
			case words[0] == "make" && len(words) == 2 && !regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(words[1])+`:`).Match(makefile):
				t.Errorf("%s: the Makefile has no %s", p.path, words[1])
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d command lines were found", checked)
	}
}

var metric = regexp.MustCompile("`((?:registry|relay)_[a-z0-9_]+)(?:\\{[^`]*\\})?`")

// secrets are files of `relay setup` whose names look like metrics.
var secrets = []string{"relay_token", "registry_headers", "registry_http_secret"}

// TestMetrics: the services export the metrics that the text names.
func TestMetrics(t *testing.T) {
	exported, found := metrics.Export(t), 0
	for _, p := range pages(t) {
		for _, m := range metric.FindAllStringSubmatch(p.prose, -1) {
			if slices.Contains(secrets, m[1]) {
				continue
			}
			found++
			if exported[m[1]] == nil && exported[m[1]+"_count"] == nil {
				t.Errorf("%s: no service exports %s", p.path, m[1])
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d metrics were found", found)
	}
}
