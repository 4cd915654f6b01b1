package setup

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/synapseadmin"
)

// What the homeserver answered is told, not that the last attempt was cut short.
func TestWaitFor_LastAttemptCutShort_TellsTheOneBefore(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	asked := 0
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked == 1 {
			http.Error(w, "not yet", http.StatusTeapot)
			return
		}
		cancel()
		<-r.Context().Done()
	}))
	defer hs.Close()
	err := WaitFor(ctx, synapseadmin.New(hs.URL), hs.URL)
	if err == nil || !strings.Contains(err.Error(), "418") {
		t.Errorf("%v", err)
	}
}
