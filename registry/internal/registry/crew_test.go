package registry

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"slipway/registry/internal/driver"
)

// crewed is a storage whose servers the test names.
type crewed struct {
	driver.Driver
	token string
	n     int
	asked int
}

func (d *crewed) Crew(context.Context) string { return d.token }

func (d *crewed) Servers(context.Context) (int, error) {
	d.asked++
	return d.n, nil
}

func TestCrewIsCountedOnceWhileNobodyComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &crewed{token: "one", n: 1}
		var c crew
		want := func(alone bool, asked int) {
			t.Helper()
			if got := c.sole(t.Context(), d); got != alone || d.asked != asked {
				t.Errorf("alone is %v after %d questions, want %v and %d", got, d.asked, alone, asked)
			}
		}
		want(true, 1)
		want(true, 2) // within a step of the clock somebody can come unseen
		d.n = 2
		want(false, 3)
		d.n = 1
		time.Sleep(crewTick + time.Second)
		want(true, 4)
		want(true, 4)
		d.token, d.n = "two", 2
		want(false, 5)
		time.Sleep(crewTick + time.Second)
		want(false, 6)
		want(false, 7)
		d.token, d.n = "three", 1
		want(true, 8)
		time.Sleep(crewTick + time.Second)
		want(true, 9)
		want(true, 9)
	})
}

func TestCrewWithoutToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &crewed{n: 1}
		var c crew
		for i := range 3 {
			if !c.sole(t.Context(), d) || d.asked != i+1 {
				t.Errorf("%d questions", d.asked)
			}
			time.Sleep(crewTick + time.Second)
		}
	})
}
