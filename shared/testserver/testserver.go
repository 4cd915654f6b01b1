// Package testserver shares a real server, such as PostgreSQL, between the tests of all packages that run at the same time: the
// first one starts it, the others find it, and it ends soon after the last one, however that ends.
package testserver

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Running is a server that Start has started.
type Running struct {
	Process *os.Process    // the leader of a process group
	Signal  syscall.Signal // ends the group
	Info    []byte         // tells other processes how to reach the server
	Linger  time.Duration  // how long it stays unused; 0 means 10 s, time to link the tests of the next package
}

// keeper ends a server that was unused in five looks in a row. It holds the lock alive, descriptor 3, for as long as the server
// lives. Arguments: the directory, the process group, the signal, the seconds between two looks.
const keeper = `
idle=0
while kill -0 "-$2" 2>/dev/null; do
	sleep "$4"
	exec 9>"$1/lock"
	flock 9
	if ! flock -n -x "$1/users" true; then idle=0; else idle=$((idle + 1)); fi
	if [ "$idle" -ge 5 ]; then
		kill "-$3" "-$2" 2>/dev/null
		while kill -0 "-$2" 2>/dev/null; do sleep 0.1; done
		rm -rf "$1/data"
		exec 3>&- # before the lock: the kernel releases those of a process that exits in any order
		exit
	fi
	exec 9>&-
done`

// Use returns the Info of the server called name. If none runs, start starts it with an empty directory for its files, whose path
// is short enough for a Unix socket and which everybody may enter. The server stays until the calling process ends, or longer.
//
// Servers are shared within a checkout of the repository, which the working directory is in.
func Use(name string, start func(dir string) (Running, error)) ([]byte, error) {
	dir, err := directory(name)
	if err != nil {
		return nil, err
	}
	lock, err := open(dir, "lock", syscall.LOCK_EX)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := join(dir); err != nil {
		return nil, err
	}
	info, data := filepath.Join(dir, "info"), filepath.Join(dir, "data")
	alive, err := open(dir, "alive", syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return os.ReadFile(info)
	}
	if err != nil {
		return nil, err
	}
	defer alive.Close()
	if err := errors.Join(os.RemoveAll(data), os.Mkdir(data, 0o755)); err != nil {
		return nil, err
	}
	server, err := start(data)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	pid := server.Process.Pid
	cmd := exec.Command("sh", "-c", keeper, "keeper", dir, strconv.Itoa(pid), strconv.Itoa(int(server.Signal)), fmt.Sprint(cmp.Or(server.Linger, 10*time.Second).Seconds()/5)) //nolint:noctx // it outlives the caller
	cmd.ExtraFiles, cmd.SysProcAttr = []*os.File{alive}, &syscall.SysProcAttr{Setsid: true}
	if err := errors.Join(os.WriteFile(info, server.Info, 0o600), cmd.Start()); err != nil {
		_ = syscall.Kill(-pid, syscall.SIGKILL) // it may have ended
		return nil, err
	}
	go func() { _ = cmd.Wait() }()
	return server.Info, nil
}

// directory makes the directory of a server, below one of the checkout's own.
func directory(name string) (string, error) {
	root, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for _, err := os.Stat(filepath.Join(root, "go.work")); err != nil && root != "/"; _, err = os.Stat(filepath.Join(root, "go.work")) {
		root = filepath.Dir(root)
	}
	dir := filepath.Join(TempDir(), fmt.Sprintf("slipway-%d-%.4x", os.Getuid(), sha256.Sum256([]byte(root))), name)
	return dir, os.MkdirAll(dir, 0o755)
}

// join makes the process a user until it ends.
func join(dir string) error {
	users, err := open(dir, "users", syscall.LOCK_SH)
	if err != nil {
		return err
	}
	defer users.Close() // the garbage collector would do that; the copy keeps the lock
	_, err = unix.FcntlInt(users.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	return err
}

// open opens a file and locks it.
func open(dir, name string, how int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), how)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(err, f.Close())
		}
	}
}
