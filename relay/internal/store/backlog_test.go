package store

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A commit doesn't wait for a count, and what it adds afterwards is in the number.
func TestDepth_Added(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d depth
		count := func() (map[int64]int64, error) {
			time.Sleep(time.Minute)
			return map[int64]int64{7: 10}, nil
		}
		go func() { _, _ = d.get(7, count) }()
		synctest.Wait()
		began := time.Now()
		d.add(7, 5)
		if waited := time.Since(began); waited > 0 {
			t.Errorf("waited %v for a count", waited)
		}
		if n, err := d.get(7, count); n != 10 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		d.add(7, 1)
		d.add(8, 2)
		for key, want := range map[int64]int64{7: 11, 8: 2} {
			if n, err := d.get(key, count); n != want || err != nil {
				t.Errorf("%d: %d, %v, want %d", key, n, err, want)
			}
		}
	})
}

// All that ask while a count fails get its failure.
func TestDepth_CountFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d depth
		failure, counts := errors.New("away"), 0
		var askers sync.WaitGroup
		for range 10 {
			askers.Go(func() {
				_, err := d.get(0, func() (map[int64]int64, error) {
					counts++
					time.Sleep(time.Second)
					return nil, failure
				})
				if !errors.Is(err, failure) {
					t.Error(err)
				}
			})
		}
		askers.Wait()
		if counts != 1 {
			t.Errorf("counted %d times", counts)
		}
		if n, err := d.get(0, func() (map[int64]int64, error) { return map[int64]int64{0: 3}, nil }); n != 3 || err != nil {
			t.Errorf("afterwards: %d, %v", n, err)
		}
	})
}
