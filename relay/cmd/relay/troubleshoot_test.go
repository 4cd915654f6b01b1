package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTroubleshootPage: the messages that docs/relay/troubleshoot.md explains are ones that the program has.
func TestTroubleshootPage(t *testing.T) {
	text, err := os.ReadFile("../../../docs/relay/troubleshoot.md")
	if err != nil {
		t.Fatal(err)
	}
	sources := allSources(t, "../..", "../../../shared")
	row := regexp.MustCompile(`(?m)^\| ([^|]*) \|`)
	span := regexp.MustCompile("`([^`]+)`")
	checked := 0
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		for _, message := range span.FindAllStringSubmatch(m[1], -1) {
			for part := range strings.SplitSeq(message[1], "…") {
				part = strings.ToLower(strings.Trim(part, ". "))
				if len(part) < 8 || part == "message" || part == "answer" {
					continue
				}
				checked++
				if !strings.Contains(sources, part) {
					t.Errorf("no message has %q, of %s", part, message[0])
				}
			}
		}
	}
	if checked < 40 {
		t.Errorf("only %d messages were found", checked)
	}
}

// allSources is the text of the programs' files, in lower case: reasons begin with a capital in some places.
func allSources(t *testing.T, dirs ...string) string {
	t.Helper()
	verb := regexp.MustCompile(`%[+#]?[a-z]`)
	var all strings.Builder
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			all.Write(verb.ReplaceAll(text, []byte("…")))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return strings.ToLower(all.String())
}
