package config

import (
	"strings"
	"testing"
)

func TestReference(t *testing.T) {
	s := defaults()
	var out strings.Builder
	if err := Reference(&out, "# Settings\n", &s, "REGISTRY"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# Settings\n\n## log\n\n| key, variable | kind | default | meaning |\n|---|---|---|---|\n",
		"| `log.level`<br>`REGISTRY_LOG_LEVEL` | string | `info` | How much to say. One of `debug`, `info`. |\n",
		"| `storage.s3`<br>`REGISTRY_STORAGE_S3` |  |  | **Not implemented**",
		"| `storage.swift` |  |  | **Refused**: it was removed. |\n",
		"\n## Other keys\n",
		"| `version` | string |  |  |\n",
		"| `bugs`<br>`REGISTRY_BUGS` |  |  | **Without effect**: the reporter is gone. |\n",
		"\nOff unless given, if only by name: `auth`, `auth.htpasswd`.\n",
		"| `checks[].every`<br>`REGISTRY_CHECKS_<n>_EVERY` | duration | `10s` |",
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
