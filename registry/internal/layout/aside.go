package layout

import "strings"

// AsideRoot is where garbage lies between the look that found it and the look
// that makes sure of it, each object under a name made of its path. Neither
// line of distribution ever comes there.
const AsideRoot = "/_aside"

// Aside is where the object at path lies when it was set aside. The last
// component becomes a suffix of its directory, so that a blob needs none of
// its own.
func Aside(path string) string {
	i := strings.LastIndexByte(path, '/')
	return AsideRoot + path[:i] + "." + path[i+1:]
}

// AsideDir is the directory of the objects that were set aside from the
// directories in dir.
func AsideDir(dir string) string { return AsideRoot + dir }

// FromAside is the directory whose object lies aside under name; which names
// the object: "link" or "data". ok is false for a name of another kind.
func FromAside(name, object string) (dir string, ok bool) {
	return strings.CutSuffix(name, "."+object)
}
