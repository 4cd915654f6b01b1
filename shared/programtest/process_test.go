package programtest_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway/shared/programtest"
)

// addrVariable makes of this test a program that listens on the address, and ends in
// its own way when it is told to.
const addrVariable = "PROGRAMTEST_ADDR"

func TestMain(m *testing.M) {
	addr := os.Getenv(addrVariable)
	if addr == "" {
		os.Exit(m.Run())
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	go func() { fmt.Println(http.ListenAndServe(addr, nil)) }()
	<-told
	fmt.Println("told to end")
	os.Exit(3)
}

func TestProcess(t *testing.T) {
	addr := programtest.FreeAddr(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{addrVariable + "=" + addr}
	p := programtest.Start(t, cmd, "http://"+addr+"/")
	err := p.Stop(t, 10*time.Second)
	if err == nil || err.Error() != "exit status 3" || !strings.Contains(p.Output(), "told to end") {
		t.Errorf("it ended with %v and %q", err, p.Output())
	}
	if err := p.WaitFor("http://"+addr+"/", time.Minute); err == nil || !strings.Contains(err.Error(), "ended before") {
		t.Errorf("waiting for one that has ended: %v", err)
	}
}

func TestKill(t *testing.T) {
	p := programtest.Launch(t, exec.Command("sleep", "60"))
	p.Kill()
	p.Kill() // does no harm
	if err := p.Stop(t, time.Second); err == nil || err.Error() != "signal: killed" {
		t.Errorf("it ended with %v", err)
	}
}

func TestTail(t *testing.T) {
	if short := programtest.Tail("short"); short != "short" {
		t.Errorf("%q", short)
	}
	if long := programtest.Tail(strings.Repeat("x", 5000) + "end"); !strings.HasSuffix(long, "xend") || len(long) > 4010 {
		t.Errorf("%d bytes that end with %q", len(long), long[len(long)-10:])
	}
}
