package delivery_test

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/service"
)

// A message that is given up is a warning in the log, with its number and the reason.
func TestDead_Warns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logged := observer.New(zap.WarnLevel)
		r := relaytest.NewRig(t, func(o *service.Options) { o.Log = zap.New(core) })
		refused := relaytest.Fails(matrix.ClassDead)
		r.HS.Script = func(matrix.Outgoing, int) *relaytest.Answer { return &refused }
		r.Start()
		id := r.Post(r.NewApp("a", "!a:hs").Token, "x")
		time.Sleep(time.Minute)
		m := r.Stored(id)
		if m.State != post.StateDead {
			t.Fatalf("%+v", m)
		}
		lines := logged.FilterMessage("gave up on a message").All()
		if len(lines) != 1 || lines[0].ContextMap()["message"] != id || lines[0].ContextMap()["reason"] != m.Error {
			t.Errorf("logged %v, want message %d and %q", lines, id, m.Error)
		}
	})
}
