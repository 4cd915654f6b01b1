package collect

import (
	"context"
	"errors"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
)

// Where nobody serves the storage, nobody relies on anything, and nobody can
// begin to while the run keeps them waiting. Then there is no need to set
// anything aside: the first look is right, and what nothing needs is removed at
// once. As soon as a server waits, the run lets it in and goes on with care.

// askEvery is how many objects are removed between two looks for who waits.
const askEvery = 64

// beAlone tries to be alone. What a killed run left aside wants the long way.
func (r *run) beAlone(ctx context.Context) error {
	if _, err := r.Driver.Stat(ctx, layout.AsideRoot); !absent(err) {
		return err
	}
	wanted, release, err := r.Driver.Alone(ctx)
	if errors.Is(err, driver.ErrBusy) {
		return nil
	}
	r.wanted, r.alone = wanted, release
	return err
}

// direct says whether the run is still alone.
func (r *run) direct() bool {
	if r.alone == nil {
		return false
	}
	if r.asked++; r.asked%askEvery == 0 && r.wanted() {
		r.endAlone()
		return false
	}
	return true
}

func (r *run) endAlone() {
	if r.alone != nil {
		r.alone()
		r.alone = nil
	}
}
