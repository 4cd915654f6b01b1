package delivery_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/store"
)

// What is deleted while somebody else changes it stays deleted: its token and its
// password are good for nothing.
func TestDeletedWhileChanged(t *testing.T) {
	r := relaytest.NewRig(t)
	for round := range 100 {
		app := r.NewApp(fmt.Sprint("a", round), "!a:hs")
		user := r.StoreUser(store.User{Name: fmt.Sprint("u", round)})
		var all sync.WaitGroup
		for range 2 { // whether they come in time is chance
			all.Go(func() {
				_, _ = r.UpdateApplication(ctx, r.Admin, app.Application.ID, account.ApplicationInput{Name: p(fmt.Sprint("b", round))})
			})
			all.Go(func() { _, _ = r.RegenerateToken(ctx, r.Admin, app.Application.ID, time.Hour) })
			all.Go(func() { _, _ = r.UpdateUser(ctx, r.Admin, user.ID, account.UserInput{MatrixID: p("@u:hs")}) })
			all.Go(func() {
				_, _ = r.CreateApplication(ctx, relaytest.Principal(user), account.ApplicationInput{Name: p("u's"), Room: p("!a:hs")})
			})
		}
		for _, remove := range []func() error{
			func() error { return r.DeleteApplication(ctx, r.Admin, app.Application.ID) },
			func() error { return r.DeleteUser(ctx, r.Admin, user.ID) },
		} {
			all.Go(func() {
				if err := remove(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if _, err := r.Application(ctx, r.Admin, app.Application.ID); err == nil {
			t.Fatalf("round %d: the application is back", round)
		}
		if _, err := r.TokenViewer(ctx, app.Token); err == nil {
			t.Fatalf("round %d: the token is good", round)
		}
		if u, err := r.User(ctx, r.Admin, user.ID); err == nil {
			t.Fatalf("round %d: the user is back: %+v", round, u)
		}
		if apps, err := r.Options.Store.Applications(ctx, user.ID, 0); err != nil || len(apps) > 0 {
			t.Fatalf("round %d: applications of nobody's: %+v, %v", round, apps, err)
		}
	}
}
