package auth

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"slipway/registry/internal/oci"
)

// loginFrom tries to log in from an address.
func loginFrom(ctx context.Context, h *tested, user, password, from string) error {
	r := basic(user, password).WithContext(ctx)
	r.RemoteAddr = from + ":1234"
	_, err := h.Authorize(r, Access{Action: Ping})
	return err
}

// hold keeps comparisons waiting until release.
func (h *tested) hold() (release func()) {
	slots := int64(0)
	for h.passwords.slots.TryAcquire(1) {
		slots++
	}
	return func() { h.passwords.slots.Release(slots) }
}

// A right password is remembered while it is in use, and then needs no turn.
func TestPasswords_Remembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, HtpasswdOptions{}, line(t, "alice", "secret"))
		login := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			return loginFrom(ctx, h, "alice", "secret", "10.0.0.1")
		}
		if err := login(); err != nil {
			t.Fatal(err)
		}
		h.hold()
		for range 10 {
			time.Sleep(40 * time.Second)
			if err := login(); err != nil {
				t.Fatalf("forgotten while in use: %v", err)
			}
		}
		time.Sleep(61 * time.Second)
		if err := login(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("remembered for too long: %v", err)
		}
	})
}

func TestPasswords_NotRemembered(t *testing.T) {
	h := open(t, HtpasswdOptions{Remember: -1}, line(t, "alice", "secret"))
	for range 2 {
		if grant, err := h.Authorize(basic("alice", "secret"), Access{Action: Ping}); err != nil || !grant.Fresh {
			t.Errorf("%+v, %v", grant, err)
		}
	}
}

// Of many clients with one password, those that waited for the others find it remembered.
func TestPasswords_IdenticalLogins(t *testing.T) {
	h := open(t, HtpasswdOptions{}, line(t, "alice", "secret"))
	release := h.hold()
	var fresh atomic.Int64
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			grant, err := h.Authorize(basic("alice", "secret"), Access{Action: Ping})
			if err != nil {
				t.Error(err)
			}
			if grant.Fresh {
				fresh.Add(1)
			}
		})
	}
	release()
	wg.Wait()
	if n := fresh.Load(); n < 1 || n > int64(max(1, runtime.NumCPU()/2)) {
		t.Errorf("%d comparisons", n)
	}
}

// After a wrong password, its address and its name have a rate, whatever the other is. Others
// don't wait.
func TestPasswords_GuessesHaveARate(t *testing.T) {
	for what, guess := range map[string]func(i int) (user, from string){
		"from one address":                  func(i int) (string, string) { return fmt.Sprint("user", i), "10.0.0.1" },
		"from one IPv6 network":             func(i int) (string, string) { return fmt.Sprint("user", i), fmt.Sprintf("[2001:db8::%x]", i+1) },
		"at one name":                       func(i int) (string, string) { return "alice", fmt.Sprint("10.0.0.", i) },
		"at names that begin with the same": func(i int) (string, string) { return strings.Repeat("x", 64) + fmt.Sprint(i), fmt.Sprint("10.0.0.", i) },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := open(t, HtpasswdOptions{}, line(t, "alice", "secret"), line(t, "bob", "secret"))
				began := time.Now()
				for i := range 1 + guessBurst + 5*guessRate {
					user, from := guess(i)
					if err := loginFrom(t.Context(), h, user, "wrong", from); refusal(t, err).Err.Code != oci.CodeUnauthorized {
						t.Fatal(err)
					}
				}
				if took := time.Since(began); took < 4*time.Second || took > 6*time.Second {
					t.Errorf("it took %v", took)
				}
				began = time.Now()
				if err := loginFrom(t.Context(), h, "bob", "secret", "192.0.2.1"); err != nil || time.Since(began) > 0 {
					t.Errorf("another: %v after %v", err, time.Since(began))
				}
			})
		})
	}
}

// Two hundred clients that guess without end, all from the address and half at the name of
// those who know their passwords, lock nobody out.
func TestPasswords_GuessesLockNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, HtpasswdOptions{}, line(t, "alice", "secret"), line(t, "bob", "secret"), line(t, "carl", "secret"), line(t, "dora", "secret"))
		const here = "10.0.0.1"
		if err := loginFrom(t.Context(), h, "alice", "secret", here); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					_ = loginFrom(ctx, h, []string{"carl", "nobody"}[i%2], fmt.Sprint(i, " ", n), here)
				}
			})
		}
		time.Sleep(10*time.Second + time.Second/guessRate/2) // between two guesses, which come on the tenth of a second
		for _, tt := range []struct {
			what, user, from string
			most             time.Duration
		}{
			{"remembered", "alice", here, 0},
			{"for the first time", "bob", here, time.Second},
			{"for the first time, the name that is guessed", "carl", here, time.Second},
			{"from elsewhere", "dora", "10.0.0.2", 0},
		} {
			began := time.Now()
			if err := loginFrom(t.Context(), h, tt.user, "secret", tt.from); err != nil || time.Since(began) > tt.most {
				t.Errorf("%s: %v after %v", tt.what, err, time.Since(began))
			}
		}
		cancel()
		wg.Wait()
	})
}

// comparedBefore returns how many guesses are compared before a right login that comes after all of them.
func comparedBefore(t *testing.T, h *tested, guesses int, guess func(i int)) (before int64) {
	t.Helper()
	release := h.hold()
	var compared atomic.Int64
	var wg sync.WaitGroup
	for i := range guesses {
		wg.Go(func() {
			guess(i)
			compared.Add(1)
		})
	}
	synctest.Wait()
	wg.Go(func() {
		if err := loginFrom(t.Context(), h, "alice", "secret", "10.0.0.2"); err != nil {
			t.Error(err)
		}
		before = compared.Load()
	})
	synctest.Wait()
	release()
	wg.Wait()
	return before
}

// However many guesses of one address wait, a login from another one goes before all but one.
func TestPasswords_GuessesQueueApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, HtpasswdOptions{}, line(t, "alice", "secret"))
		before := comparedBefore(t, h, guessBurst, func(i int) {
			_ = loginFrom(t.Context(), h, fmt.Sprint("user", i), "wrong", "10.0.0.1")
		})
		if before > 4 { // one was ahead; the others are those of the moment
			t.Errorf("%d guesses were compared before", before)
		}
	})
}

// However many addresses guess, at any names, a login from one that doesn't waits for few of them.
func TestPasswords_GuessingAddressesQueueApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, HtpasswdOptions{}, line(t, "alice", "secret"))
		const guessers = 60
		name := func(i int) string { return []string{"alice", "nobody", fmt.Sprint("user", i)}[i%3] }
		from := func(i int) string { return fmt.Sprint("10.0.1.", i) }
		for range tolerated + 1 {
			for i := range guessers {
				_ = loginFrom(t.Context(), h, name(i), "wrong", from(i))
			}
		}
		time.Sleep(time.Minute) // the rates of the names recover
		before := comparedBefore(t, h, guessers, func(i int) { _ = loginFrom(t.Context(), h, name(i), "wrong again", from(i)) })
		if before > guessers/2 {
			t.Errorf("%d guesses were compared before", before)
		}
	})
}

// A login that comes among guesses of its own address is next, and those that have hung up leave no trace.
func TestTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var queue turn
		if err := queue.take(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, hangUp := context.WithCancel(t.Context())
		errs := make([]error, maxWaiting+2)
		var order []int
		var wg sync.WaitGroup
		for i := range errs {
			mine := t.Context()
			if i == 5 {
				mine = ctx
			}
			wg.Go(func() {
				if errs[i] = queue.take(mine); errs[i] == nil {
					order = append(order, i)
					queue.pass()
				}
			})
			synctest.Wait()
		}
		hangUp()
		synctest.Wait()
		queue.pass()
		wg.Wait()
		if !errors.Is(errs[0], errBusy) || !errors.Is(errs[1], errBusy) || !errors.Is(errs[5], context.Canceled) {
			t.Errorf("the oldest got %v and %v, one that hung up %v", errs[0], errs[1], errs[5])
		}
		if len(order) != len(errs)-3 || !slices.IsSortedFunc(order, func(a, b int) int { return b - a }) {
			t.Errorf("the order was %v", order)
		}
		if queue.held || len(queue.waiting) > 0 {
			t.Error("the turn is still held")
		}
	})
}

// A password behind too many of the same address is refused at once, with the time to try again.
func TestPasswords_TooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, HtpasswdOptions{}, line(t, "alice", "secret"))
		_ = loginFrom(t.Context(), h, "alice", "wrong", "10.0.0.1")
		release := h.hold()
		var refused atomic.Int64
		var wg sync.WaitGroup
		for i := range maxWaiting + 50 {
			wg.Go(func() {
				began := time.Now()
				got := refusal(t, loginFrom(t.Context(), h, fmt.Sprint("user", i), "wrong", "10.0.0.1"))
				if got.Reason != TooManyLogins {
					return
				}
				refused.Add(1)
				if got.Err.Code != oci.CodeTooManyRequests || got.RetryAfter <= 0 || time.Since(began) > 0 {
					t.Errorf("%+v after %v", got, time.Since(began))
				}
			})
		}
		synctest.Wait()
		release()
		wg.Wait()
		if n := refused.Load(); n < 48 || n > 50 {
			t.Errorf("%d were refused", n)
		}
	})
}

// Nothing is compared for a client that has hung up.
func TestPasswords_HungUp(t *testing.T) {
	h := open(t, HtpasswdOptions{}, line(t, "alice", "secret"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := loginFrom(ctx, h, "alice", "wrong", "10.0.0.1"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if h.passwords.addresses.of("10.0.0.1").wrong.Load() > 0 {
		t.Error("the password was compared")
	}
}
