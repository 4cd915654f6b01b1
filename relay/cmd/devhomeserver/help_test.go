//go:build goolm

package main

import (
	"bytes"
	"strings"
	"testing"
)

// The name that pflag takes out of backquotes stands for the value of the flag, and nothing else is in backquotes.
func TestHelp_NamesTheValueOfEachFlag(t *testing.T) {
	for _, command := range []string{"serve", "messages"} {
		var out bytes.Buffer
		root := newRoot()
		root.SetOut(&out)
		root.SetArgs([]string{command, "--help"})
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		if text := out.String(); strings.Contains(text, "`") || !strings.Contains(text, " DIRECTORY ") || strings.Contains(text, "--dir relay") {
			t.Errorf("%s:\n%s", command, text)
		}
	}
}
