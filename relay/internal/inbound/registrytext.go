package inbound

import (
	"fmt"
	"strings"

	"slipway/relay/internal/markup"
)

const (
	maxActor     = 100
	maxHost      = 255
	maxPlatforms = 6
	shortDigest  = 12 // characters of a digest's hexadecimal part
)

// text is the body of the message, in Markdown.
func (e *event) text() string {
	var parts []string
	if e.Target.Digest != "" {
		parts = append(parts, code(short(e.Target.Digest), 80))
	}
	done, where := "pushed", "to"
	if e.Action == "delete" {
		done, where = "deleted", "from"
	} else if s := e.size(); s != "" {
		parts = append(parts, s)
	}
	if e.Actor.Name != "" {
		done += " by " + code(e.Actor.Name, maxActor)
	}
	if e.Request.Host != "" {
		done += " " + where + " " + code(e.Request.Host, maxHost)
	}
	return strings.Join(append(parts, done), ", ")
}

// size returns the size of the image as text, if the event names its parts, or for which
// platforms an index is. A manifest's own size would say nothing of the image and
// is named as what it is.
func (e *event) size() string {
	t := &e.Target
	switch {
	case isIndex(t.MediaType):
		return platforms(t.References)
	case len(t.References) > 0:
		var sum int64
		for _, r := range t.References {
			if r.Size < 0 || sum+r.Size < sum {
				return ""
			}
			sum += r.Size
		}
		return markup.Size(sum)
	case t.Size > 0:
		return "manifest of " + markup.Size(t.Size)
	}
	return ""
}

func isIndex(mediaType string) bool {
	return mediaType == "application/vnd.oci.image.index.v1+json" || mediaType == "application/vnd.docker.distribution.manifest.list.v2+json"
}

// platforms lists those of an index. Attestations, which have none, are left out.
func platforms(refs []descriptor) string {
	var names []string
	for _, r := range refs {
		if p := r.Platform; p != nil && p.OS != "" && p.OS != "unknown" {
			names = append(names, code(strings.TrimSuffix(p.OS+"/"+p.Architecture+"/"+p.Variant, "/"), 60))
		}
	}
	switch n := len(names); {
	case n == 0:
		return "for several platforms"
	case n > maxPlatforms:
		names = append(names[:maxPlatforms], fmt.Sprintf("%d more", n-maxPlatforms))
	}
	return "for " + strings.Join(names, ", ")
}

// short is a digest as people know it from docker.
func short(digest string) string {
	algorithm, hex, ok := strings.Cut(digest, ":")
	if !ok || len(hex) <= shortDigest {
		return digest
	}
	return algorithm + ":" + hex[:shortDigest]
}

// code makes a code span of a string from outside: nothing in it is markup
// (CommonMark, code spans: a fence longer than every run of backticks inside).
func code(s string, longest int) string {
	s = markup.Line(s, longest)
	run, most := 0, 0
	for _, r := range s {
		if r != '`' {
			run = 0
			continue
		}
		run++
		most = max(most, run)
	}
	fence := strings.Repeat("`", most+1)
	if most > 0 {
		return fence + " " + s + " " + fence
	}
	return fence + s + fence
}
