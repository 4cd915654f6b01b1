package doctest_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"slipway/shared/programtest"
	"slipway/tools/harness"
)

var (
	symptom = regexp.MustCompile(`(?m)^\| ([^|]*) \|`)
	verb    = regexp.MustCompile(`%[+#]?[a-z]`)
)

// TestTroubleshoot: the messages in the first column of the tables of troubleshoot.md
// are in the program's source, in whatever case. "…" stands for what a message fills in.
func TestTroubleshoot(t *testing.T) {
	for _, service := range []string{"registry", "relay"} {
		const source = `cd "$0" && find "$1" shared -name '*.go' -not -name '*_test.go' -exec cat {} +`
		text := strings.ToLower(verb.ReplaceAllString(harness.Run(t, "bash", "-c", source, programtest.Root(t), service), "…"))
		checked := 0
		for _, m := range symptom.FindAllStringSubmatch(harness.Read(t, filepath.Join(programtest.Root(t), "docs", service, "troubleshoot.md")), -1) {
			for _, span := range codeSpan.FindAllString(m[1], -1) {
				for part := range strings.SplitSeq(strings.TrimPrefix(strings.Trim(span, "`"), `auth.refusal="`), "…") {
					part = strings.ToLower(strings.Trim(part, ` .,:?"`))
					if len(part) < 8 || part == "message" || part == "answer" || strings.HasPrefix(part, "storagedriver_") { // the last with a driver's name
						continue
					}
					checked++
					if !strings.Contains(text, part) {
						t.Errorf("no message of the %s has %q, of %s", service, part, span)
					}
				}
			}
		}
		if checked < 40 {
			t.Errorf("only %d messages of the %s were found", checked, service)
		}
	}
}
