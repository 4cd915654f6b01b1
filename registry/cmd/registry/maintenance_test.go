package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/filesystem"
)

// command runs a command on the volume and returns its output.
func (v *volume) command(args ...string) (code int, stdout, stderr string) {
	v.t.Helper()
	v.t.Setenv("REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY", v.root)
	var out, problems strings.Builder
	code = run(v.t.Context(), args, strings.NewReader(""), &out, &problems)
	return code, out.String(), problems.String()
}

// everything is all files and directories below root.
func everything(t *testing.T, root string) string {
	t.Helper()
	var all []string
	ok(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		all = append(all, path)
		return err
	}))
	return strings.Join(all, "\n")
}

// Commands that only look change nothing.
func TestCommandsThatChangeNothing(t *testing.T) {
	for _, args := range []string{"garbage-collect -d", "garbage-collect -d -m --age 0", "usage", "uploads list", "uploads delete -d --age 0", "retention plan", "verify"} {
		v := &volume{t: t, root: t.TempDir(), want: map[string]string{}}
		v.push(0)
		before := everything(t, v.root)
		if code, _, stderr := v.command(strings.Fields(args)...); code != 0 {
			t.Errorf("%s: ended with %d: %s", args, code, stderr)
		}
		if after := everything(t, v.root); after != before {
			t.Errorf("%s: the storage was\n%s\nand is\n%s", args, before, after)
		}
	}
}

// A root directory that does not exist may be misspelled: it is an error, and is not made.
func TestCollectGarbage_MissingRoot(t *testing.T) {
	v := &volume{t: t, root: t.TempDir() + "/none"}
	code, stdout, stderr := v.command("garbage-collect")
	if code != 1 || stdout != "" || !strings.Contains(stderr, "storage.filesystem.rootdirectory: "+v.root+" does not exist: ") {
		t.Errorf("ended with %d: %s%s", code, stdout, stderr)
	}
	if _, err := os.Stat(v.root); err == nil {
		t.Error("it was made")
	}
}

// A quiet collection, such as that of a cron job, reports nothing.
func TestCollectGarbage_Quiet(t *testing.T) {
	v := &volume{t: t, root: t.TempDir(), want: map[string]string{}}
	v.push(0)
	if code, stdout, stderr := v.command("garbage-collect", "-m", "-q"); code != 0 || stdout != "" {
		t.Errorf("ended with %d: %s%s", code, stdout, stderr)
	}
}

// A negative age would reach into the future: it is refused, and nothing is removed.
func TestNegativeDurationsAreRefused(t *testing.T) {
	v := &volume{t: t, root: t.TempDir(), want: map[string]string{}}
	p := v.push(0)
	const id = "11111111-2222-4333-8444-555555555555"
	v.write(layout.UploadStartedAt("team/app", id), "2020-01-02T03:04:05Z")
	for _, step := range []struct{ args, flag string }{
		{"uploads delete --age -1h", "--age"},
		{"uploads delete --dry-run --age -1h", "--age"},
		{"garbage-collect --age -1h", "--age"},
		{"garbage-collect --dry-run --age -1ns", "--age"},
		{"robot create r --expires -1h", "--expires"},
	} {
		before := everything(t, v.root)
		code, _, stderr := v.command(strings.Fields(step.args)...)
		if code != 2 || !strings.Contains(stderr, step.flag+" must not be negative") {
			t.Errorf("%s: ended with %d: %s", step.args, code, stderr)
		}
		if after := everything(t, v.root); after != before {
			t.Errorf("%s changed the storage", step.args)
		}
	}
	v.pullAll([]picture{p})
}

// TestRestore_List: without a repository it lists those from which something was deleted.
func TestRestore_List(t *testing.T) {
	v := &volume{t: t, root: t.TempDir(), want: map[string]string{}}
	v.push(0)
	time.Sleep(20 * time.Millisecond) // two pushes in one tick of the clock are equally new
	v.push(4)
	v.push(1)
	config := filepath.Join(t.TempDir(), "config.yml")
	ok(t, os.WriteFile(config, []byte("version: 0.1\nstorage:\n  filesystem: {rootdirectory: "+v.root+"}\n  delete: {enabled: true, keep: 1h}\n"+
		"  maintenance: {retention: {rules: [{repositories: ['**'], action: delete, newest: 1}]}}\n"), 0o600))
	for done := false; !done; time.Sleep(10 * time.Millisecond) { // a tag that was written a moment ago may be changing
		code, stdout, stderr := v.command("retention", "apply", "--trust-dates", "--yes", "-c", config)
		if code != 0 || t.Context().Err() != nil {
			t.Fatal(stderr)
		}
		done = strings.Contains(stdout, "1 tag deleted")
	}
	code, stdout, stderr := v.command("restore", "--list", "-c", config)
	if code != 0 || !strings.Contains(stdout, "r0 ") || !strings.Contains(stdout, "tag t0") || strings.Contains(stdout, "r1") {
		t.Errorf("ended with %d: %s%s", code, stdout, stderr)
	}
	if code, stdout, _ = v.command("restore", "--list", "--json", "-c", config); code != 0 || !strings.Contains(stdout, `"repository": "r0"`) {
		t.Errorf("as JSON: %d: %s", code, stdout)
	}
	if code, _, stderr = v.command("restore", "r1", "-c", config); code != 1 || stderr != "registry: nothing that was deleted from r1 and can be restored matches\n" {
		t.Errorf("ended with %d: %s", code, stderr)
	}
	if code, _, stderr = v.command("restore", "-c", config); code != 2 || !strings.Contains(stderr, "is missing") {
		t.Errorf("without a repository: %d: %s", code, stderr)
	}
}

// An image that can't be restored makes the command fail, but not the others stay deleted.
func TestRestore_InPart(t *testing.T) {
	v := &volume{t: t, root: t.TempDir(), want: map[string]string{}}
	whole, broken := v.push(0), v.push(4)
	store, err := filesystem.Open(v.root)
	ok(t, err)
	repo := registry.New(registry.Options{Store: store, DeleteEnabled: true, KeepDeleted: time.Hour}).Repository(whole.repo)
	ok(t, repo.DeleteBlob(t.Context(), broken.layer))
	ok(t, errors.Join(repo.Delete(t.Context()), store.Close()))
	code, stdout, stderr := v.command("restore", string(whole.repo))
	report := "t0 " + string(whole.manifest) + "\n" + string(broken.manifest) + " stays deleted: blob unknown to registry: " + string(broken.layer) + "\n1 manifest and 1 tag restored\n"
	if code != 1 || stdout != report || !strings.Contains(stderr, "registry: 1 manifest could not be restored\n") {
		t.Errorf("ended with %d: %s%s", code, stdout, stderr)
	}
	v.pullAll([]picture{whole})
}

// A command notes what it has changed for the targets of replication, which a server copies.
func TestRestore_Replicated(t *testing.T) {
	v := &volume{t: t, root: t.TempDir(), want: map[string]string{}}
	image := v.push(0)
	store, err := filesystem.Open(v.root)
	ok(t, err)
	repo := registry.New(registry.Options{Store: store, DeleteEnabled: true, KeepDeleted: time.Hour}).Repository(image.repo)
	ok(t, errors.Join(repo.Delete(t.Context()), store.Close()))
	config := filepath.Join(t.TempDir(), "config.yml")
	ok(t, os.WriteFile(config, []byte("version: 0.1\nstorage: {filesystem: {rootdirectory: "+v.root+"}, delete: {enabled: true, keep: 1h}}\n"+
		"replication: {targets: [{name: backup, url: 'http://127.0.0.1:1', repositories: ['**']}]}\n"), 0o600))
	if code, _, stderr := v.command("restore", string(image.repo), "-c", config); code != 0 {
		t.Fatal(stderr)
	}
	if code, stdout, stderr := v.command("replication", "list", "--json", "-c", config); code != 0 || !strings.Contains(stdout, `"waiting": 1`) {
		t.Errorf("ended with %d: %s%s", code, stdout, stderr)
	}
}

// An offline collection could free what a restore puts in place beside it.
func TestRestoreWaitsForAnOfflineCollection(t *testing.T) {
	v := &volume{t: t, root: t.TempDir(), want: map[string]string{}}
	v.push(0)
	s, err := filesystem.Open(v.root)
	ok(t, err)
	defer s.Close()
	unlock, err := s.Lock(t.Context(), storage.LockServers, false)
	ok(t, err)
	const waiting = "waiting for the end of an offline garbage collection"
	problems := &watcher{text: waiting, seen: unlock}
	config := filepath.Join(t.TempDir(), "config.yml")
	ok(t, os.WriteFile(config, []byte("version: 0.1\nstorage: {filesystem: {rootdirectory: "+v.root+"}}\n"), 0o600))
	if code := run(t.Context(), []string{"restore", "-c", config, "team/app"}, nil, io.Discard, problems); code != 1 || !strings.Contains(problems.String(), waiting) {
		t.Errorf("ended with %d: %s", code, problems)
	}
}

// watcher calls seen once a line has the text.
type watcher struct {
	strings.Builder
	text string
	seen func()
}

func (w *watcher) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.text) {
		w.seen()
	}
	return w.Builder.Write(p)
}

// A verification that is interrupted describes what the next one does.
func TestVerifyInterrupted(t *testing.T) {
	v := &volume{t: t, root: t.TempDir(), want: map[string]string{}}
	v.push(0)
	t.Setenv("REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY", v.root)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, want := range []string{"interrupted; the next run starts over", "interrupted; the next run resumes the check of the blobs"} {
		var out, problems strings.Builder
		code := run(ctx, []string{"verify"}, strings.NewReader(""), &out, &problems)
		if code != 1 || !strings.Contains(problems.String(), want) || strings.Contains(problems.String(), "canceled") || !strings.Contains(out.String(), "interrupted; so far 0 repositories") {
			t.Errorf("ended with %d: %s%s, want %s", code, &out, &problems, want)
		}
		ok(t, os.MkdirAll(filepath.Dir(v.root+layout.Verified), 0o755))
		ok(t, os.WriteFile(v.root+layout.Verified, []byte("{}"), 0o600)) // as a run leaves it that was checking blobs
	}
}

// An empty plan still has a list of verdicts.
func TestPlanWithoutVerdictsIsAList(t *testing.T) {
	v := &volume{t: t, root: t.TempDir(), want: map[string]string{}}
	if code, stdout, stderr := v.command("retention", "plan", "--json"); code != 0 || !strings.Contains(stdout, `"verdicts": []`) {
		t.Errorf("ended with %d: %s%s", code, stdout, stderr)
	}
}

func TestUploadsCommand(t *testing.T) {
	v := &volume{t: t, root: t.TempDir(), want: map[string]string{}}
	const id = "11111111-2222-4333-8444-555555555555"
	v.write(layout.UploadStartedAt("team/app", id), "2020-01-02T03:04:05Z")
	v.write(layout.UploadData("team/app", id), strings.Repeat("x", 2048))
	for _, step := range []struct{ args, want string }{
		{"uploads list", "1 upload with 2.0 KiB unfinished"},
		{"usage", "2.0 KiB in 1 unfinished upload; registry uploads delete removes abandoned ones"},
		{"uploads delete --yes", "nothing to delete: no upload is older than 168h; 1 younger upload kept (--age sets another age)"},
		{"uploads delete --age 1h --dry-run", "nothing to delete: no upload is older than 1h; 1 younger upload kept (--age sets another age)"},
		{"uploads delete --age 0 --dry-run", "1 upload with 2.0 KiB to delete"},
		{"uploads delete --age 0 --yes", "1 upload with 2.0 KiB deleted"},
		{"uploads delete --age 0 --yes", "nothing to delete: there are no unfinished uploads"},
		{"uploads list", "there are no unfinished uploads"},
		{"usage", "0 B in 0 unfinished uploads"},
	} {
		code, stdout, stderr := v.command(strings.Fields(step.args)...)
		if code != 0 || !strings.HasSuffix(stdout, step.want+"\n") {
			t.Errorf("%s: ended with %d: %s%s, want %s", step.args, code, stdout, stderr, step.want)
		}
	}
	if _, err := os.Stat(v.root + layout.Repository("team")); err == nil {
		t.Error("empty directories are left")
	}
}
