package doctest_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"slipway/shared/programtest"
	"slipway/tools/harness"
	"slipway/tools/metrics"
)

// manual holds the manual pages of a program by their names: "registry-config-check".
type manual map[string]string

func manualOf(t *testing.T, program string) manual {
	t.Helper()
	m, dir := manual{}, t.TempDir()
	harness.Run(t, harness.Binary(t, program), "manual", dir)
	files, _ := filepath.Glob(filepath.Join(dir, "*.1"))
	for _, file := range files {
		m[strings.TrimSuffix(filepath.Base(file), ".1")] = harness.Read(t, file)
	}
	return m
}

// check returns what is wrong with the words of a command line, or nothing.
func (m manual) check(words []string) string {
	page := words[0]
	for words = words[1:]; len(words) > 0 && m[page+"-"+words[0]] != ""; words = words[1:] {
		page += "-" + words[0]
	}
	command := strings.ReplaceAll(page, "-", "[- ]")
	if len(words) > 0 && !strings.HasPrefix(words[0], "-") && regexp.MustCompile(`(?m)^\\fB`+command+`( \[flags\])?\\fP$`).MatchString(m[page]) {
		return "there is no command " + words[0] + " of " + page
	}
	for _, word := range words {
		flag, _, _ := strings.Cut(strings.Trim(word, "[],"), "=")
		if len(flag) > 1 && flag[0] == '-' && flag != "--" && !strings.Contains(m[page], `\fB`+flag+`\fP`) {
			return page + " has no flag " + flag
		}
	}
	return ""
}

var (
	before = regexp.MustCompile(`^\s*((sudo|[A-Z_]+=\S*)\s+)*(bin/)?`)
	behind = regexp.MustCompile(`\s([12]?>|([|;#&]|&&|\|\|)(\s|$)).*`)
)

// TestCommands: the command lines of registry, relay and make, in the text and in
// blocks, are ones that exist. Each block is one that bash can read.
func TestCommands(t *testing.T) {
	makefile := harness.Read(t, filepath.Join(programtest.Root(t), "Makefile"))
	programs := map[string]manual{"registry": manualOf(t, "registry"), "relay": manualOf(t, "relay")}
	for _, wrong := range []string{"registry config chek", "registry config check --no-such", "relay serv"} {
		if words := strings.Fields(wrong); programs[words[0]].check(words) == "" {
			t.Errorf("the check finds nothing wrong with %q", wrong)
		}
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
				harness.Run(t, "bash", "-n", "-c", b.text)
			}
		}
		for _, line := range lines {
			words := strings.Fields(behind.ReplaceAllString(before.ReplaceAllString(line, ""), ""))
			switch {
			case len(words) < 2:
			case programs[words[0]] != nil:
				checked++
				if wrong := programs[words[0]].check(words); wrong != "" {
					t.Errorf("%s: %q: %s", p.path, line, wrong)
				}
			case words[0] == "make" && len(words) == 2 && !regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(words[1])+`:`).MatchString(makefile):
				t.Errorf("%s: the Makefile has no %s", p.path, words[1])
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d command lines were found", checked)
	}
}

var metric = regexp.MustCompile("`((?:registry|relay)_[a-z0-9_]+)(?:\\{[^`]*\\})?`")

// TestMetrics: the services export the metrics that the text names.
func TestMetrics(t *testing.T) {
	others := []string{"relay_token", "registry_headers", "registry_http_secret", "relay_session"} // files of `relay setup`, a cookie
	exported, found := metrics.Export(t), 0
	for _, p := range pages(t) {
		for _, m := range metric.FindAllStringSubmatch(p.prose, -1) {
			found++
			if exported[m[1]] == nil && exported[m[1]+"_count"] == nil && !slices.Contains(others, m[1]) {
				t.Errorf("%s: no service exports %s", p.path, m[1])
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d metrics were found", found)
	}
}
