package auth

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestMemoIsBounded(t *testing.T) {
	m := newMemo(time.Minute, 8)
	for i := range 100 {
		m.add(sum{byte(i)})
	}
	if len(m.expires) != 8 || !m.has(sum{99}) {
		t.Errorf("%d entries, want 8 and the newest among them", len(m.expires))
	}
	for range 100 {
		m.add(sum{99})
	}
	if len(m.expires) != 8 {
		t.Errorf("%d entries after adding one again", len(m.expires))
	}
}

func TestMemoForgetsWhatNobodyUses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemo(time.Minute, 8)
		m.add(sum{1})
		m.add(sum{2})
		for range 10 {
			time.Sleep(40 * time.Second)
			if !m.has(sum{1}) {
				t.Fatal("forgotten while in use")
			}
		}
		if m.has(sum{2}) {
			t.Error("remembered though nobody used it")
		}
		time.Sleep(61 * time.Second)
		if m.has(sum{1}) {
			t.Error("remembered for too long")
		}
	})
}
