package servertest

import (
	"strings"
	"testing"
)

func TestPython_NotInstalled_SaysWhatToRun(t *testing.T) {
	t.Chdir(t.TempDir())
	_, err := Python()
	if err == nil || !strings.Contains(err.Error(), `run "make tools"`) || strings.Contains(err.Error(), ".tools") {
		t.Errorf("got %v", err)
	}
}
