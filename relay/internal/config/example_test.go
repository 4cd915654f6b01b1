package config

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"slipway/shared/config"
)

const example = "../../config.example.yml"

// TestExampleIsDefault: the values of the example are the defaults.
func TestExampleIsDefault(t *testing.T) {
	environ := []string{"MATRIX_PASSWORD=bot-secret", "ADMIN_PASSWORD=admin-secret"}
	got, _, err := Load(example, environ)
	if err != nil {
		t.Fatal(err)
	}
	want, _, err := load(config.Options{Environ: minimal})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the example gives\n%+v\nthe defaults are\n%+v", got, want)
	}
}

// TestExampleShowsEverything: each setting is in the example, with its off-lines
// switched on too.
func TestExampleShowsEverything(t *testing.T) {
	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	on := regexp.MustCompile(`(?m)^#( +\w+:)`).ReplaceAll(text, []byte("$1"))
	target := Default()
	for _, leaf := range config.Walk(&target) {
		name := leaf.Path[strings.LastIndexByte(leaf.Path, '.')+1:]
		if leaf.Type != "" && !regexp.MustCompile(`(?m)^ +`+name+`:`).Match(on) {
			t.Errorf("%s is not in the example", leaf.Path)
		}
	}
}
