package charts_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write the tables of values into the READMEs")

// The table of values in each README is what values.yaml says, comments and all.
// `go test ./charts -run TestReadme -update` writes it.
func TestReadme(t *testing.T) {
	for _, chart := range charts {
		path := filepath.Join(chart, "README.md")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		const begin, end = "<!-- values: made by a test -->\n", "<!-- end of values -->\n"
		head, rest, ok := strings.Cut(string(text), begin)
		_, foot, found := strings.Cut(rest, end)
		if !ok || !found {
			t.Fatalf("%s has no place for the table", path)
		}
		want := head + begin + table(t, filepath.Join(chart, "values.yaml")) + end + foot
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if string(text) != want {
			t.Errorf("the table in %s is not what values.yaml says; run `go test ./charts -run TestReadme -update` in deploy/", path)
		}
	}
}

// table has a row for each value that has a comment, in the file's order.
func table(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("| value | default | |\n|---|---|---|\n")
	addRows(t, &b, "", document.Content[0])
	return b.String()
}

func addRows(t *testing.T, b *strings.Builder, prefix string, node *yaml.Node) {
	t.Helper()
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		comment := strings.Join(strings.Fields(strings.ReplaceAll("\n"+key.HeadComment, "\n#", "\n")), " ")
		switch {
		case comment != "":
			b.WriteString("| `" + prefix + key.Value + "` | " + shown(t, value) + " | " + strings.ReplaceAll(comment, "|", `\|`) + " |\n")
		case value.Kind == yaml.MappingNode:
			addRows(t, b, prefix+key.Value+".", value)
		default:
			t.Errorf("%s%s has no comment", prefix, key.Value)
		}
	}
}

// shown is a default as a table has it: what takes more than a line is not.
func shown(t *testing.T, value *yaml.Node) string {
	t.Helper()
	if value.Kind == yaml.MappingNode && len(value.Content) > 0 {
		return "see values.yaml"
	}
	text, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return "`" + strings.TrimSpace(string(text)) + "`"
}
