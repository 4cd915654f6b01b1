package config

import (
	"strings"
	"testing"
)

func TestReference(t *testing.T) {
	s := defaults()
	var out strings.Builder
	if err := Reference(&out, "# Settings\n", &s); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# Settings\n\n## log\n\n<!-- not checked: defaults, of which some exclude others -->\n```yaml\nlog:\n  level: info\n",
		"- <a id=\"log.level\"></a>`log.level` (`info`): How much to say. One of `debug`, `info`.\n",
		"- <a id=\"storage.s3\"></a>`storage.s3`: **Refused**: there is none.\n",
		"- <a id=\"storage.swift\"></a>`storage.swift`: **Refused**: it was removed.\n",
		"\n## Other keys\n",
		"- <a id=\"version\"></a>`version`\n",
		"\n## Without effect\n\nAccepted with a warning: `bugs`",
		"\nOptional: `auth`, `auth.htpasswd`.\n",
		"- <a id=\"checks.every\"></a>`checks[].every` (`10s`)",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}

func TestMarkdown(t *testing.T) {
	const text, want = "* is <any>_one | ** all", `\* is &lt;any>\_one \| \*\* all`
	if got := markdown(text); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
