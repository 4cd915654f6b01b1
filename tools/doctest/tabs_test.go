package doctest_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway/shared/programtest"
)

// tabs passes a page to what makes tabs of it.
func tabs(t *testing.T, page string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "awk", "-f", filepath.Join(programtest.Root(t), "tools", "sitetabs.awk"))
	cmd.Stdin = strings.NewReader(page)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestTabs(t *testing.T) {
	const page = "# A page\n\n<!--tabs-->\n\n**systemd**\n\n```sh\n# a comment\n\n**one**\n```\n\n**Docker**\n\n- **bold** text\n\n<!--/tabs-->\n\n**No tab**\n"
	const shown = "# A page\n\n\n\n===! \"systemd\"\n\n    ```sh\n    # a comment\n    \n    **one**\n    ```\n\n=== \"Docker\"\n\n    - **bold** text\n\n\n\n**No tab**\n"
	if out, err := tabs(t, page); err != nil || out != shown {
		t.Errorf("%v, %q instead of %q", err, out, shown)
	}
	for text, why := range map[string]string{
		"<!--tabs-->\n\n**one**\n\ntext\n\n**two**\n":                                 "tabs without an end",
		"<!--tabs-->\n\n**one**\n\ntext\n\n<!--/tabs-->\n":                            "a set of one tab",
		"<!--tabs-->\n\n**one**\n\n**two**\n\n<!--/tabs-->\n\n<!--/tabs-->\n":         "the end of tabs without their beginning",
		"<!--tabs-->\n\n**one**\n\n<!--tabs-->\n":                                     "tabs inside tabs",
		"<!--tabs-->\n\ntext\n\n**one**\n\n**two**\n\n<!--/tabs-->\n":                 "text before the first tab",
		"<!--tabs-->\n\n**one**\n\n## A heading\n\n**two**\n\ntext\n\n<!--/tabs-->\n": "a heading in a tab",
	} {
		if out, err := tabs(t, text); err == nil || !strings.Contains(out, why) {
			t.Errorf("%q: %v, %q instead of %q", text, err, out, why)
		}
	}
}

// TestTabsOfPages: the site can show the tabs of each page.
func TestTabsOfPages(t *testing.T) {
	sets := 0
	for _, p := range pages(t) {
		out, err := tabs(t, p.text)
		if err != nil {
			t.Errorf("%s: %s", p.path, out)
		}
		sets += strings.Count(out, "\n===! ")
	}
	if sets < 10 {
		t.Errorf("%d sets of tabs", sets)
	}
}
