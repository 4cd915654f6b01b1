package collect

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"slipway/shared/programtest"
)

// gcCrane is a real client beside the writers: crane, alone in its repository.
type gcCrane struct {
	l      *gcLoad
	rnd    *rand.Rand
	path   string
	layers []string          // tar files that it pushes again and again
	tags   map[string]string // digests, acknowledged and not deleted
	unsure map[string]bool   // tags whose last change got no answer
}

const craneRepo = "load/crane"

func newGCCrane(l *gcLoad) *gcCrane {
	c := &gcCrane{
		l: l, rnd: rand.New(rand.NewPCG(99, 5)), path: programtest.Tool(l.t, "crane"),
		tags: map[string]string{}, unsure: map[string]bool{},
	}
	for _, b := range l.pool[:4] {
		c.layers = append(c.layers, c.layer(b))
	}
	return c
}

// layer writes a tar file with one file in it.
func (c *gcCrane) layer(content []byte) string {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Name: "data", Mode: 0o644, Size: int64(len(content))})
	if err == nil {
		_, err = w.Write(content)
	}
	name := filepath.Join(c.l.t.TempDir(), "layer.tar")
	if err = errors.Join(err, w.Close(), os.WriteFile(name, b.Bytes(), 0o600)); err != nil {
		c.l.t.Fatal(err)
	}
	return name
}

func (c *gcCrane) work(ctx context.Context) {
	for ctx.Err() == nil {
		var err error
		switch n := c.rnd.IntN(10); {
		case n < 5 || len(c.tags) == 0:
			err = c.push()
		case n < 7:
			err = c.remove()
		default:
			err = c.validate(c.some())
		}
		if err != nil && !errors.Is(err, errLost) {
			c.l.t.Errorf("crane: %v", err)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// noAnswer is what crane says when the server died.
var noAnswer = regexp.MustCompile(`connection refused|connection reset|broken pipe|EOF|server closed idle connection`)

// run runs crane. The error is errLost if the server gave no answer.
func (c *gcCrane) run(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(c.l.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.path, append([]string{"--insecure"}, args...)...)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err := cmd.Run()
	if err == nil {
		return strings.TrimSpace(out.String()), nil
	}
	err = fmt.Errorf("%s: %w: %s", args[0], err, programtest.Tail(complaint.String()))
	if noAnswer.MatchString(complaint.String()) {
		err = fmt.Errorf("%w: %w", errLost, err)
	}
	return "", err
}

// ref is a tag at one of the servers.
func (c *gcCrane) ref(tag string) string {
	return c.l.addrs[c.rnd.IntN(len(c.l.addrs))] + "/" + craneRepo + ":" + tag
}

func (c *gcCrane) some() string {
	for tag := range c.tags {
		return tag
	}
	return ""
}

// push pushes an image of an old layer and a new one. At age zero it may be
// asked for something again.
func (c *gcCrane) push() error {
	tag := fmt.Sprintf("t%d", c.rnd.IntN(3))
	fresh := c.layer(fmt.Appendf(nil, "%d", c.rnd.Uint64()))
	old := c.layers[c.rnd.IntN(len(c.layers))]
	delete(c.tags, tag)
	c.unsure[tag] = true
	for try := 0; ; try++ {
		at, err := c.run("append", "-f", old, "-f", fresh, "-t", c.ref(tag))
		if err == nil {
			c.l.realPushes.Add(1)
			c.tags[tag] = at[strings.LastIndexByte(at, '@')+1:]
			delete(c.unsure, tag)
			return nil
		}
		if errors.Is(err, errLost) || c.l.age > 0 || try == 20 || !strings.Contains(err.Error(), "BLOB_UNKNOWN") {
			return err
		}
		c.l.again.Add(1)
	}
}

// remove deletes an image with all its tags.
func (c *gcCrane) remove() error {
	d := c.tags[c.some()]
	for tag, other := range c.tags {
		if other == d {
			delete(c.tags, tag)
			c.unsure[tag] = true
		}
	}
	_, err := c.run("delete", strings.Replace(c.ref(""), craneRepo+":", craneRepo+"@"+d, 1))
	if err != nil {
		return err
	}
	c.l.deletions.Add(1)
	return nil
}

// validate pulls an acknowledged image, all of it.
func (c *gcCrane) validate(tag string) error {
	got, err := c.run("digest", c.ref(tag))
	if err != nil {
		return fmt.Errorf("acknowledged %s: %w", tag, err)
	}
	if got != c.tags[tag] {
		return fmt.Errorf("acknowledged %s is %s, want %s", tag, got, c.tags[tag])
	}
	if _, err := c.run("validate", "--remote", c.ref(tag)); err != nil {
		return fmt.Errorf("acknowledged %s: %w", tag, err)
	}
	c.l.pulls.Add(1)
	return nil
}

// verify checks all that was acknowledged; tags in doubt are whole or absent.
func (c *gcCrane) verify() {
	for tag := range c.tags {
		if err := c.validate(tag); err != nil {
			c.l.t.Errorf("crane: %v", err)
		}
	}
	for tag := range c.unsure {
		if _, err := c.run("digest", c.ref(tag)); err != nil {
			continue
		}
		if _, err := c.run("validate", "--remote", c.ref(tag)); err != nil {
			c.l.t.Errorf("crane: a visible image: %v", err)
		}
	}
}
