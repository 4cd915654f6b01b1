package s3

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strings"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/object"
)

// parse reads an answer into v.
func parse(content []byte, v any) error {
	if err := xml.Unmarshal(content, v); err != nil {
		return fmt.Errorf("%w: the store's answer is no XML that S3 has: %w", storage.ErrUnavailable, err)
	}
	return nil
}

var xmlEscaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&apos;")

func xmlText(s string) string { return xmlEscaper.Replace(s) }

func sortEntries(entries []object.Info) {
	slices.SortFunc(entries, func(a, b object.Info) int { return strings.Compare(a.Key, b.Key) })
}
