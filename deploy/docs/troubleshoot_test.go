package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/shared/programtest"
)

// TestTroubleshoot: the messages in the first column of the tables of
// docs/registry/troubleshoot.md are in the program's source. "…" stands for what
// a message fills in.
func TestTroubleshoot(t *testing.T) {
	root := programtest.Root(t)
	source := sourceOf(t, filepath.Join(root, "registry"), filepath.Join(root, "shared"))
	found := 0
	for _, p := range pages(t) {
		if p.path != "docs/registry/troubleshoot.md" {
			continue
		}
		for line := range strings.Lines(p.prose) {
			if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| symptom") {
				continue
			}
			found++
			symptom, _, _ := strings.Cut(line[2:], " | ")
			for _, span := range codeSpan.FindAllString(symptom, -1) {
				for part := range strings.SplitSeq(strings.Trim(span, "`"), "…") {
					part = strings.Trim(part, " ,:?")
					if len(part) > 7 && strings.Contains(part, " ") && !strings.Contains(source, strings.TrimSuffix(strings.TrimPrefix(part, `auth.refusal="`), `"`)) {
						t.Errorf("%s: the registry has no message %q", p.path, part)
					}
				}
			}
		}
	}
	if found < 25 {
		t.Errorf("only %d symptoms were found", found)
	}
}

// sourceOf is the text of all Go files below the directories, without tests.
func sourceOf(t *testing.T, directories ...string) string {
	t.Helper()
	var all strings.Builder
	for _, dir := range directories {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			all.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}
