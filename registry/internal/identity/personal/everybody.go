package personal

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/storage"
)

// Owned is a token with its owner.
type Owned struct {
	Token
	Owner string
}

// Everybody returns at most limit tokens of all owners, by owner, and reports whether there are more.
func (t *Tokens) Everybody(ctx context.Context, limit int) (all []Owned, more bool, err error) {
	for info, err := range t.store.List(ctx, layout.People, storage.ListOptions{Flat: true}) {
		if err != nil {
			return nil, false, err
		}
		folder, name, _ := strings.Cut(strings.TrimPrefix(info.Key, layout.People+"/"), "/")
		if folder == "" || !strings.HasPrefix(name, "token-") {
			continue
		}
		if more = len(all) == limit; more {
			break
		}
		content, _, err := storage.Read(ctx, t.store, info.Key, maxRecord)
		if errors.Is(err, storage.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, false, err
		}
		var r record
		if json.Unmarshal(content, &r) == nil && keyOf(r.Owner, r.ID) == info.Key {
			all = append(all, Owned{r.Token, r.Owner})
		}
	}
	slices.SortStableFunc(all, func(a, b Owned) int { return strings.Compare(a.Owner, b.Owner) })
	return all, more, nil
}
