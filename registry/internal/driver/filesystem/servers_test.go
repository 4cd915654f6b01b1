package filesystem

import (
	"testing"
	"time"
)

// The token of who serves is the same however the directory is asked, and another
// one when somebody has come.
func TestCrewOfAStorageElsewhere(t *testing.T) {
	d, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	first, err := d.Serve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer first()
	here := d.Crew(t.Context())
	d.localClock = false
	if token := d.Crew(t.Context()); token == "" || token != here {
		t.Errorf("%x, and %x elsewhere", here, token)
	}
	time.Sleep(fineTick)
	second, err := d.Serve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer second()
	if d.Crew(t.Context()) == here {
		t.Error("nobody has come")
	}
}
