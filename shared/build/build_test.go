package build

import (
	"encoding/json"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestDescribe(t *testing.T) {
	plain := &debug.BuildInfo{
		Main:     debug.Module{Version: "v0.0.0-20261121070000-abc"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abcdef"}, {Key: "vcs.time", Value: "2026-11-21T07:00:00Z"}},
	}
	tests := []struct {
		name                  string
		version, commit, date string
		build                 *debug.BuildInfo
		want                  string
	}{
		{"linked", "v1.2.0", "123456", "2026-01-02T03:04:05Z", plain, "v1.2.0 123456 2026-01-02T03:04:05Z"},
		{"plain build", "", "", "", plain, "v0.0.0-20261121070000-abc abcdef 2026-11-21T07:00:00Z"},
		{"without a repository", "", "", "", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "dev unknown unknown"},
		{"without anything", "", "", "", nil, "dev unknown unknown"},
	}
	for _, tt := range tests {
		i := describe("registry", tt.version, tt.commit, tt.date, tt.build)
		if got := i.Version + " " + i.Commit + " " + i.Date; got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestWrite(t *testing.T) {
	var text, object strings.Builder
	i := Of("relay", "v1.2.0", "123456", "2026-01-02T03:04:05Z")
	if err := i.Write(&text, false); err != nil {
		t.Fatal(err)
	}
	want := "relay slipway/relay v1.2.0\ncommit 123456 of 2026-01-02T03:04:05Z, " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH + "\n"
	if text.String() != want {
		t.Errorf("%q, want %q", text.String(), want)
	}
	if err := i.Write(&object, true); err != nil {
		t.Fatal(err)
	}
	var back Info
	if err := json.Unmarshal([]byte(object.String()), &back); err != nil || back != i {
		t.Errorf("%s is %+v (%v), want %+v", object.String(), back, err, i)
	}
}
