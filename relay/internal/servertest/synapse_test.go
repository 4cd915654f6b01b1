package servertest

import (
	"strings"
	"testing"
	"time"
)

func TestFull_Start_SaysWhyItFailed(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a homeserver; `make test` runs it")
	}
	_, err := StartSynapse(t.Context(), SynapseOptions{Dir: t.TempDir(), Domain: "not a name", StartTimeout: 30 * time.Second})
	if err == nil || !strings.Contains(err.Error(), "not a name") {
		t.Fatalf("error = %v, want one with the homeserver's own words", err)
	}
}
