package registry

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.uber.org/zap"
)

// Recover finishes what a process had begun that died, or what the storage did
// not let it finish: links of tags that it had in its hands are put back, and
// deletions are finished. Tags come first: those that are back go with their
// manifest. One that cannot be mended holds up no other. It is logged when it is
// first met, and tried again by the next call.
func (r *Registry) Recover(ctx context.Context) {
	if r.readOnly {
		return
	}
	r.recovering.Lock()
	defer r.recovering.Unlock()
	met := troubles{}
	met.all("a tag that a dead process had in its hands is not put back yet", r.recoverTags(ctx))
	met.all("a deletion of a manifest that was begun is not finished yet", r.finishDeletions(ctx))
	if ctx.Err() != nil && errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	for trouble := range met {
		if !r.recovering.known[trouble] {
			r.log.Warn(trouble.what, zap.String("error", trouble.cause))
		}
	}
	r.recovering.known = met
}

// recovering is held by who recovers.
type recovering struct {
	sync.Mutex
	known troubles // of the last time, which are logged
}

// troubles is what could not be mended.
type troubles map[trouble]bool

type trouble struct{ what, cause string }

// maxTroubles is how many are told of, which bounds the memory for them.
const maxTroubles = 100

func (t troubles) all(what string, errs []error) {
	for _, err := range errs {
		t[trouble{what, err.Error()}] = true
	}
}

// failures are errors of things that are independent of each other.
type failures []error

func (f *failures) add(name string, err error) {
	if err != nil && len(*f) < maxTroubles {
		*f = append(*f, fmt.Errorf("%s: %w", name, err))
	}
}
