package storage

import "testing"

// Ahead calls once: at once or when its result is asked for.
func TestAhead(t *testing.T) {
	for _, now := range []bool{false, true} {
		called := make(chan struct{}, 2)
		result := Ahead(now, func() (int, error) {
			called <- struct{}{}
			return 7, nil
		})
		if now {
			<-called
		}
		if n, err := result(); n != 7 || err != nil {
			t.Errorf("now %v: %d, %v", now, n, err)
		}
		if !now && len(called) != 1 || now && len(called) != 0 {
			t.Errorf("now %v: called %d times more", now, len(called))
		}
	}
}
