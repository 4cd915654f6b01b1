package proxy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// policyTests are the tests of the rows of the table in docs/registry/pull-through-cache.md, by how the
// row begins. Those of other packages have its directory before them.
var policyTests = map[string][]string{
	"a tag was checked less than":             {"TestPolicy_TagTTL"},
	"a tag was checked longer ago":            {"TestPolicy_TagTTL", "TestPolicy_Coalesced"},
	"a digest":                                {"TestPolicy_UpstreamFails", "TestPolicy_Digest"},
	"the upstream is down, also at the start": {"TestPolicy_UpstreamFails", "TestPolicy_StartWithoutUpstream", "TestBlob_BrokenTransfer", "TestBlob_LongOutage"},
	"no answer within 3 seconds":              {"TestPolicy_SlowCheck", "TestPolicy_UpstreamFails"},
	"a blob arrives slower than":              {"upstream/TestTrickles", "TestBlob_ResumesAreBounded"},
	"429 ":                                    {"TestPolicy_UpstreamFails", "TestPolicy_RetryAfter"},
	"401, 403":                                {"TestPolicy_UpstreamFails"},
	"the configured login is refused":         {"TestPolicy_UpstreamFails", "TestPolicy_WrongLogin"},
	"the token server isn't trusted":          {"upstream/TestToken_UntrustedRealm"},
	"404 for a tag that was there":            {"TestPolicy_DeletedUpstream", "TestPolicy_UnknownNames"},
	"bytes of another digest":                 {"TestBlob_WrongBytes"},
	"`offline: true`":                         {"TestPolicy_Offline"},
	"the storage is full or fails":            {"TestPolicy_FullDisk", "TestBlob_FullDisk", "TestBlob_FullDiskAtTheEnd", "TestBlob_CommitHangs"},
	"the spool is full or fails":              {"TestBlob_SpoolFails", "TestBlob_SpoolFillsUp"},
}

// Each row of the policy has a test, and each test that is named here is there.
func TestPolicy_EachRowHasATest(t *testing.T) {
	page, err := os.ReadFile("../../../docs/registry/pull-through-cache.md")
	check(t, err)
	_, table, ok := strings.Cut(string(page), "| case | what is cached | what is not |\n|---|---|---|\n")
	table, _, end := strings.Cut(table, "\n\n")
	if !ok || !end {
		t.Fatal("docs/registry/pull-through-cache.md has no table of the policy")
	}
	rows := 0
	for row := range strings.Lines(table) {
		rows++
		found := 0
		for begin := range policyTests {
			if strings.HasPrefix(row, "| "+begin) {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%d entries are about the row %s", found, row)
		}
	}
	if rows != len(policyTests) {
		t.Errorf("the table has %d rows, and there are tests of %d", rows, len(policyTests))
	}
	for begin, names := range policyTests {
		for _, name := range names {
			dir, function := filepath.Split(name)
			files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
			check(t, err)
			there := false
			for _, file := range files {
				source, err := os.ReadFile(file)
				check(t, err)
				there = there || strings.Contains(string(source), "\nfunc "+function+"(t *testing.T) {")
			}
			if !there {
				t.Errorf("%s: there is no %s", begin, name)
			}
		}
	}
}
