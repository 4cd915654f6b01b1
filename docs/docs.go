// Package docs holds the documentation, which both services serve below /ui/help/.
package docs

import "embed"

// Files holds README.md, all other pages below it, and the pictures that they show.
//
//go:embed *.md */*.md *.svg pictures/registry-repository-*.webp pictures/relay-*.webp
var Files embed.FS
