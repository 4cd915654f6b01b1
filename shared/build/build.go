// Package build describes what a binary was built from.
package build

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

// Info describes the build of a binary. Missing fields are "unknown".
type Info struct {
	// Name is the service: registry or relay.
	Name string `json:"name"`
	// Version is the tag that was built, or how far beyond it the commit is.
	Version string `json:"version"`
	// Commit is the full hash.
	Commit string `json:"commit"`
	// Date is the commit's, in RFC 3339.
	Date string `json:"date"`
	// Go is the version of the compiler.
	Go string `json:"go"`
	// Platform is the system and the processor: linux/amd64.
	Platform string `json:"platform"`
}

// Of returns the description of the binary called name. The linker sets
// version, commit and date in a release; where they are empty, what the Go
// tool notes in each binary takes their place.
func Of(name, version, commit, date string) Info {
	noted, _ := debug.ReadBuildInfo()
	return describe(name, version, commit, date, noted)
}

func describe(name, version, commit, date string, noted *debug.BuildInfo) Info {
	settings := map[string]string{}
	if noted != nil {
		for _, s := range noted.Settings {
			settings[s.Key] = s.Value
		}
		if noted.Main.Version != "(devel)" {
			version = cmp.Or(version, noted.Main.Version)
		}
	}
	return Info{
		Name:     name,
		Version:  cmp.Or(version, "dev"),
		Commit:   cmp.Or(commit, settings["vcs.revision"], "unknown"),
		Date:     cmp.Or(date, settings["vcs.time"], "unknown"),
		Go:       runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
}

// Line has the form of CNCF distribution's: name, package, version.
func (i Info) Line() string { return fmt.Sprintf("%s slipway/%s %s", i.Name, i.Name, i.Version) }

// Write writes all of it for people, or as one JSON object.
func (i Info) Write(w io.Writer, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(i)
	}
	_, err := fmt.Fprintf(w, "%s\ncommit %s of %s, %s %s\n", i.Line(), i.Commit, i.Date, i.Go, i.Platform)
	return err
}
