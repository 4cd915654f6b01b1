package api

import (
	"net/url"
	"path"
	"strings"
)

// place is what a path points at.
type place int

const (
	nowhere place = iota
	atRoot
	atHealth
	atRedirect // one slash too many or too few
	atBase
	atCatalog
	atTags
	atManifest
	atBlob
	atUploads
	atUpload
	atReferrers
	atRepository
	atToken
	atRobots
	atRobot
)

// target is a path taken apart. Neither name nor last has been checked.
type target struct {
	place place
	name  string // the repository
	last  string // tag, digest or upload id
}

// locate takes the path apart, by hand: it runs for each route that is tried,
// and a regular expression costs more than the rest of a small answer.
//
// The path is the decoded one, as with CNCF distribution: clients that take a
// name for one element of the path escape its slashes.
//
// Repository names contain slashes and may contain our own words
// ("tags/list" is a fine name), so the path is read from its end.
func (a *API) locate(u *url.URL) target {
	switch {
	case u.Path == "/":
		return target{place: atRoot}
	case u.Path == "/debug/health" && a.opts.Health != nil:
		return target{place: atHealth}
	}
	rest, ok := strings.CutPrefix(u.Path, a.urls.prefix)
	switch {
	case !ok:
		return target{}
	case rest == TokenPath && a.opts.Tokens != nil:
		return target{place: atToken}
	case a.opts.Robots != nil && strings.HasPrefix(rest, robotsPath):
		return locateRobot(rest)
	}
	return locate(rest)
}

// robotsPath is where robots are managed. No repository has a name that begins with an
// underscore.
const robotsPath = "/v2/_slipway/robots"

func locateRobot(path string) target {
	name, ok := strings.CutPrefix(path, robotsPath+"/")
	switch {
	case path == robotsPath:
		return target{place: atRobots}
	case !ok || name == "" || strings.Contains(name, "/"):
		return target{}
	}
	return target{place: atRobot, last: name}
}

func locate(path string) target {
	rest, ok := strings.CutPrefix(path, "/v2/")
	switch {
	case !ok && path == "/v2", rest == "_catalog/":
		return target{place: atRedirect}
	case !ok:
		return target{}
	case rest == "":
		return target{place: atBase}
	case rest == "_catalog":
		return target{place: atCatalog}
	}
	return locateInRepository(rest)
}

func locateInRepository(rest string) target {
	i := strings.LastIndexByte(rest, '/')
	if i < 0 {
		return target{}
	}
	parent, last := rest[:i], rest[i+1:]
	switch {
	case last == "list" && under(&parent, "/tags"):
		return target{atTags, parent, ""}
	case last == "" && strings.HasSuffix(parent, "/tags/list"):
		return target{place: atRedirect}
	case last == "uploads" && under(&parent, "/blobs"), last == "" && under(&parent, "/blobs/uploads"):
		return target{atUploads, parent, ""}
	case last == "":
		return target{}
	case last == "repository" && under(&parent, "/_slipway"):
		return target{atRepository, parent, ""}
	case under(&parent, "/manifests"):
		return target{atManifest, parent, last}
	case under(&parent, "/blobs"):
		return target{atBlob, parent, last}
	case under(&parent, "/blobs/uploads"):
		return target{atUpload, parent, last}
	case under(&parent, "/referrers"):
		return target{atReferrers, parent, last}
	}
	return target{}
}

// cleanPath is the path without empty and dot elements; a slash at its end stays.
func cleanPath(p string) string {
	clean := path.Clean("/" + p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}

// under cuts the suffix off the path if something is left in front of it.
func under(path *string, suffix string) bool {
	name, ok := strings.CutSuffix(*path, suffix)
	if ok && name != "" {
		*path = name
	}
	return ok && name != ""
}
