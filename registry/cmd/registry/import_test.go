package main

import (
	"testing"

	"slipway/registry/internal/oci"
)

func TestBelow(t *testing.T) {
	for repository, want := range map[string]oci.Name{
		"docker.io/library/app": "imp/app", "docker.io/team/app": "imp/team/app", "registry.example.org/team/app": "imp/team/app",
		"localhost/app": "imp/app", "localhost:5000/app": "imp/app", "team/app": "imp/team/app", "app": "imp/app",
	} {
		if got, err := below("imp", repository); (err != nil) != (want == "") || err == nil && got != want {
			t.Errorf("%s is %s, %v", repository, got, err)
		}
	}
}
