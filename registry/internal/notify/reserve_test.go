package notify

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReserve(t *testing.T) {
	r := &reserve{path: filepath.Join(t.TempDir(), reserveName)}
	if r.spend() {
		t.Error("it spends what is not there")
	}
	r.renew()
	r.renew()
	if info, err := os.Stat(r.path); err != nil || info.Size() != reserveSize {
		t.Error(info, err)
	}
	if !r.spend() || r.spend() {
		t.Error("it is not spent once")
	}
	var none *reserve
	if none.renew(); none.spend() {
		t.Error("none spends")
	}
}
