package collect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway/registry/e2e/harness"
	"slipway/shared/programtest"
)

// Pushes, mounts, retags, deletions and pulls, while
// garbage is collected in a loop and collector and servers are killed at random: a
// minute in all. `make soak` asks for ten. A machine that is too busy to do enough
// in that time gets more.
func TestFull_CollectUnderLoad(t *testing.T) {
	t.Parallel()
	limit := 12 * time.Second
	if n, err := strconv.Atoi(os.Getenv("SLIPWAY_SOAK_SECONDS")); err == nil {
		limit = time.Duration(n) * time.Second
	}
	for name, options := range map[string]gcLoadOptions{
		"an age longer than a push": {age: 4 * time.Second, servers: 1, kill: true},
		"age zero":                  {servers: 1, kill: true},
		"two servers":               {age: 4 * time.Second, servers: 2, kill: true},
		"two servers and age zero":  {servers: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newGCLoad(t, options)
			l.run(limit)
			l.settle()
			for _, w := range l.writers {
				w.verify()
			}
			t.Logf("%d pushes, %d deletions, %d pulls, %d asked again, %d collections, %d kills; %d blobs freed",
				l.pushes.Load(), l.deletions.Load(), l.pulls.Load(), l.again.Load(), l.collections.Load(), l.kills.Load(), l.freed.Load())
			if !l.enough() {
				t.Error("too little happened to prove anything")
			}
		})
	}
}

// gcLoadOptions describes the servers and collectors beside a load.
type gcLoadOptions struct {
	age     time.Duration // the grace period
	servers int
	kill    bool // the first server and the collectors die at random
}

// gcLoad is one such load.
type gcLoad struct {
	gcLoadOptions
	t       *testing.T
	root    string
	addrs   []string
	env     []string
	writers []*gcWriter
	pool    [][]byte // layers that all writers use now and then

	// lossy says that answers of proxies and of a store that is away may come instead of the
	// registry's, and late requests may take effect: then each tag is used once.
	lossy bool
	names atomic.Int64

	pushes, deletions, pulls, again, collections, kills, freed, lost atomic.Int64
}

// enough reports whether so much happened that it proves something. Collections by
// the schedules of the servers are not counted.
func (l *gcLoad) enough() bool {
	return l.pushes.Load() >= 100 && l.collections.Load() >= 4 && l.freed.Load() >= 50
}

func newGCLoad(t *testing.T, o gcLoadOptions) *gcLoad {
	l := &gcLoad{t: t, root: t.TempDir(), gcLoadOptions: o}
	interval := 2 * time.Second
	if !o.kill { // nothing ends their runs, which keep out those that are counted
		interval = 15 * time.Second
	}
	l.env = []string{fmt.Sprintf("REGISTRY_STORAGE_MAINTENANCE_GC={enabled: true, interval: %s, age: %s, deleteuntagged: true}", interval, o.age)}
	rnd := rand.NewChaCha8([32]byte{7})
	for range 12 {
		b := make([]byte, 20_000)
		rnd.Read(b)
		l.pool = append(l.pool, b)
	}
	for range o.servers {
		l.addrs = append(l.addrs, programtest.FreeAddr(t))
	}
	for i := range 6 {
		l.writers = append(l.writers, &gcWriter{
			l: l, id: i, repo: fmt.Sprintf("load/writer-%d", i), rnd: rand.New(rand.NewPCG(uint64(i), 5)),
			client: &http.Client{Transport: &http.Transport{}, Timeout: 30 * time.Second},
			tags:   map[string]*gcImage{}, unsure: map[string]bool{},
		})
	}
	return l
}

// end ends the load after limit, if enough has happened; else when it has.
func (l *gcLoad) end(ctx context.Context, limit time.Duration, cancel func()) {
	defer cancel()
	giveUp := time.Now().Add(limit + 10*time.Minute) // for a machine that is busy with other things
	for end := time.Now().Add(limit); ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		if now := time.Now(); now.After(giveUp) || now.After(end) && l.enough() {
			return
		}
	}
}

// run lets everything loose for a while.
func (l *gcLoad) run(limit time.Duration) {
	ctx, cancel := context.WithCancel(l.t.Context())
	defer cancel()
	var all sync.WaitGroup
	var up sync.WaitGroup
	for i, addr := range l.addrs {
		up.Add(1)
		all.Go(func() { l.serve(ctx, i, addr, up.Done) })
	}
	up.Wait()
	for _, w := range l.writers {
		all.Go(func() { w.work(ctx) })
	}
	all.Go(func() { l.collect(ctx) })
	all.Go(func() { l.end(ctx, limit, cancel) })
	all.Wait()
}

// serve keeps a server running. The first one dies now and then if the load kills.
func (l *gcLoad) serve(ctx context.Context, i int, addr string, up func()) {
	once := sync.OnceFunc(up)
	defer once()
	for ctx.Err() == nil {
		p := programtest.Launch(l.t, harness.RegistryCommand(addr, l.root, l.env...))
		if err := p.WaitFor("http://"+addr+"/v2/", time.Minute); err != nil {
			l.t.Error(err)
			return
		}
		once()
		life := time.Duration(700+rand.IntN(2500)) * time.Millisecond
		if !l.kill || i > 0 {
			life = time.Hour
		}
		select {
		case <-time.After(life):
			l.kills.Add(1)
		case <-ctx.Done():
		}
		p.Kill()
	}
}

// collect runs the command again and again, beside the schedule of the servers.
func (l *gcLoad) collect(ctx context.Context) {
	for ctx.Err() == nil {
		cmd := harness.CollectCommand(l.root, []string{"-m", "--json", "--age", l.age.String()}, l.env...)
		var out bytes.Buffer
		cmd.Stdout = &out
		if err := cmd.Start(); err != nil {
			l.t.Error(err)
			return
		}
		if l.kill && rand.IntN(3) == 0 {
			time.Sleep(time.Duration(5+rand.IntN(60)) * time.Millisecond)
			cmd.Process.Kill()
		}
		var report struct{ Blobs struct{ Freed int64 } }
		if cmd.Wait() == nil && json.Unmarshal(out.Bytes(), &report) == nil {
			l.collections.Add(1)
			l.freed.Add(report.Blobs.Freed)
		}
		time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
	}
}

// settle starts the servers again, and collects once more.
func (l *gcLoad) settle() {
	harness.Start(l.t, l.addrs[0], harness.RegistryCommand(l.addrs[0], l.root))
	out, err := harness.CollectCommand(l.root, []string{"-m", "--json", "--age", "0s"}).CombinedOutput()
	if err != nil {
		l.t.Errorf("the last collection: %v: %s", err, programtest.Tail(string(out)))
	}
}

// gcImage is the target of a writer's tag, with all that belongs to it.
type gcImage struct {
	manifest  []byte
	manifests map[string][]byte // children, by digest
	blobs     []string
}

// gcWriter is alone in its repository.
type gcWriter struct {
	l      *gcLoad
	id     int
	repo   string
	rnd    *rand.Rand
	client *http.Client
	tags   map[string]*gcImage // acknowledged and not deleted
	unsure map[string]bool     // tags whose last change got no answer
}

// errLost is a request without an answer, because the server died.
var errLost = errors.New("no answer")

func (w *gcWriter) work(ctx context.Context) {
	for ctx.Err() == nil {
		var err error
		switch n := w.rnd.IntN(10); {
		case n < 5 || len(w.tags) == 0:
			err = w.push()
		case n < 6:
			err = w.retag()
		case n < 8:
			err = w.remove()
		default:
			err = w.pull()
		}
		if err != nil && !errors.Is(err, errLost) {
			w.l.t.Errorf("%s: %v", w.repo, err)
			return
		}
		// The collectors, which rest while requests are under way, are to keep up.
		pause := time.Duration(w.rnd.IntN(80)) * time.Millisecond
		if err != nil {
			pause = 20 * time.Millisecond
		}
		time.Sleep(pause)
	}
}

// addr is one of the servers.
func (w *gcWriter) addr() string { return w.l.addrs[w.rnd.IntN(len(w.l.addrs))] }

func (w *gcWriter) do(method, path, contentType string, body []byte) (*http.Response, []byte, error) {
	url := path
	if !strings.HasPrefix(path, "http://") {
		url = "http://" + w.addr() + path
	}
	req, err := http.NewRequest(method, url, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	req.Header["Accept"] = harness.AcceptAll["Accept"]
	resp, err := w.client.Do(req)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errLost, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && w.l.lossy && resp.StatusCode >= 500 {
		err = errors.New(resp.Status)
	}
	if err != nil {
		w.l.lost.Add(1)
		return nil, nil, fmt.Errorf("%w: %w", errLost, err)
	}
	return resp, b, nil
}

func (w *gcWriter) newTag() string {
	if w.l.lossy {
		return fmt.Sprintf("t%d", w.l.names.Add(1))
	}
	return fmt.Sprintf("t%d", w.rnd.IntN(4))
}

// random returns new content, or some that others use too.
func (w *gcWriter) random() []byte {
	if w.rnd.IntN(3) > 0 {
		return w.l.pool[w.rnd.IntN(len(w.l.pool))]
	}
	b := make([]byte, 1000+w.rnd.IntN(30_000))
	for i := range b {
		b[i] = byte(w.rnd.Uint32())
	}
	return b
}

// push pushes an image or an index of two. At age zero it may be asked for
// something again.
func (w *gcWriter) push() error {
	tag := w.newTag()
	var contents [][][]byte
	for range 1 + w.rnd.IntN(2) {
		contents = append(contents, [][]byte{
			fmt.Appendf(nil, `{"architecture":"amd64","os":"linux","n":%d}`, w.rnd.Uint64()>>uint(40+w.rnd.IntN(20))),
			w.random(), w.random(),
		})
	}
	for try := 0; ; try++ {
		refused, err := w.pushOnce(tag, contents, try > 0)
		if err != nil || refused == "" {
			return err
		}
		if w.l.age > 0 || try == 20 {
			return fmt.Errorf("push refused at try %d: %s", try+1, refused)
		}
		w.l.again.Add(1)
	}
}

func (w *gcWriter) pushOnce(tag string, contents [][][]byte, all bool) (refused string, err error) {
	img := &gcImage{manifests: map[string][]byte{}}
	var children []harness.Descriptor
	for _, blobs := range contents {
		var descs []harness.Descriptor
		for _, b := range blobs {
			if err := w.pushBlob(b, all); err != nil {
				return "", err
			}
			descs = append(descs, harness.Descriptor{MediaType: harness.TypeLayer, Digest: harness.DigestOf(b), Size: len(b)})
			img.blobs = append(img.blobs, harness.DigestOf(b))
		}
		descs[0].MediaType = harness.TypeConfig
		img.manifest = harness.JSON(w.l.t, map[string]any{"schemaVersion": 2, "mediaType": harness.TypeManifest, "config": descs[0], "layers": descs[1:]})
		children = append(children, harness.Descriptor{MediaType: harness.TypeManifest, Digest: harness.DigestOf(img.manifest), Size: len(img.manifest)})
		if len(contents) == 1 {
			break
		}
		img.manifests[harness.DigestOf(img.manifest)] = img.manifest
		if refused, err := w.pushChild(img.manifest, all); refused != "" || err != nil {
			return refused, err
		}
	}
	mediaType := harness.TypeManifest
	if len(contents) > 1 {
		mediaType = harness.TypeIndex
		img.manifest = harness.JSON(w.l.t, map[string]any{"schemaVersion": 2, "mediaType": harness.TypeIndex, "manifests": children})
	}
	return w.putTag(tag, mediaType, img)
}

// pushBlob asks, mounts or uploads.
func (w *gcWriter) pushBlob(b []byte, upload bool) error {
	d := harness.DigestOf(b)
	if !upload {
		resp, _, err := w.do("HEAD", "/v2/"+w.repo+"/blobs/"+d, "", nil)
		if err != nil || resp.StatusCode == http.StatusOK {
			return err
		}
	}
	query := ""
	if w.rnd.IntN(2) == 0 {
		query = "?mount=" + d + "&from=" + w.l.writers[w.rnd.IntN(len(w.l.writers))].repo
	}
	// An upload stays with the server where it began.
	addr := "http://" + w.addr()
	resp, body, err := w.do("POST", addr+"/v2/"+w.repo+"/blobs/uploads/"+query, "", nil)
	if err != nil || resp.StatusCode == http.StatusCreated {
		return err
	}
	if resp.StatusCode != http.StatusAccepted {
		return fmt.Errorf("POST: %s %s", resp.Status, body)
	}
	location := resp.Header.Get("Location")
	if strings.HasPrefix(location, "/") {
		location = addr + location
	}
	sep := "?"
	if strings.Contains(location, "?") {
		sep = "&"
	}
	resp, body, err = w.do("PUT", location+sep+"digest="+d, "", b)
	if err == nil && resp.StatusCode != http.StatusCreated {
		err = fmt.Errorf("PUT blob: %s %s", resp.Status, body)
	}
	return err
}

// pushChild asks for a manifest or pushes it, by digest.
func (w *gcWriter) pushChild(b []byte, all bool) (refused string, err error) {
	path := "/v2/" + w.repo + "/manifests/" + harness.DigestOf(b)
	if !all && w.rnd.IntN(2) == 0 {
		resp, _, err := w.do("HEAD", path, "", nil)
		if err != nil || resp.StatusCode == http.StatusOK {
			return "", err
		}
	}
	resp, body, err := w.do("PUT", path, harness.TypeManifest, b)
	return answer(resp, body, err)
}

func answer(resp *http.Response, body []byte, err error) (refused string, _ error) {
	switch {
	case err != nil:
		return "", err
	case resp.StatusCode == http.StatusCreated:
		return "", nil
	case resp.StatusCode == http.StatusBadRequest || resp.StatusCode == http.StatusNotFound:
		return resp.Status + " " + string(body), nil
	}
	return "", fmt.Errorf("PUT manifest: %s %s", resp.Status, body)
}

func (w *gcWriter) putTag(tag, mediaType string, img *gcImage) (refused string, err error) {
	old := w.tags[tag]
	delete(w.tags, tag)
	w.unsure[tag] = true
	resp, body, err := w.do("PUT", "/v2/"+w.repo+"/manifests/"+tag, mediaType, img.manifest)
	refused, err = answer(resp, body, err)
	switch {
	case err != nil:
		return "", err
	case refused != "":
		if old != nil {
			w.tags[tag] = old
		}
		delete(w.unsure, tag)
		if old == nil {
			w.unsure[tag] = true
		}
		return refused, nil
	}
	w.l.pushes.Add(1)
	w.tags[tag] = img
	delete(w.unsure, tag)
	return "", nil
}

func (w *gcWriter) some() (string, *gcImage) {
	for tag, img := range w.tags {
		return tag, img
	}
	return "", nil
}

// retag gives an image another tag and takes the old one away.
func (w *gcWriter) retag() error {
	from, img := w.some()
	mediaType := harness.TypeManifest
	if len(img.manifests) > 0 {
		mediaType = harness.TypeIndex
	}
	refused, err := w.putTag(w.newTag(), mediaType, img)
	if err != nil || refused != "" {
		if refused != "" {
			err = errors.New("retag refused: " + refused)
		}
		return err
	}
	if w.tags[from] == nil || w.rnd.IntN(2) == 0 {
		return nil
	}
	return w.deleteTag(from)
}

func (w *gcWriter) deleteTag(tag string) error {
	delete(w.tags, tag)
	w.unsure[tag] = true
	resp, body, err := w.do("DELETE", "/v2/"+w.repo+"/manifests/"+tag, "", nil)
	if err == nil && resp.StatusCode != http.StatusAccepted {
		err = fmt.Errorf("DELETE tag: %s %s", resp.Status, body)
	}
	if err == nil {
		w.l.deletions.Add(1)
	}
	return err
}

// remove deletes a tag, or an image with all its tags.
func (w *gcWriter) remove() error {
	tag, img := w.some()
	if w.rnd.IntN(2) == 0 {
		return w.deleteTag(tag)
	}
	for other, same := range w.tags {
		if bytes.Equal(same.manifest, img.manifest) {
			delete(w.tags, other)
			w.unsure[other] = true
		}
	}
	resp, body, err := w.do("DELETE", "/v2/"+w.repo+"/manifests/"+harness.DigestOf(img.manifest), "", nil)
	if err == nil && resp.StatusCode != http.StatusAccepted {
		err = fmt.Errorf("DELETE: %s %s", resp.Status, body)
	}
	if err == nil {
		w.l.deletions.Add(1)
	}
	return err
}

func (w *gcWriter) pull() error {
	tag, img := w.some()
	return w.check(tag, img)
}

// check pulls an acknowledged image, all of it.
func (w *gcWriter) check(tag string, img *gcImage) error {
	resp, got, err := w.do("GET", "/v2/"+w.repo+"/manifests/"+tag, "", nil)
	if err != nil {
		return err
	}
	if resp.StatusCode != 200 || !bytes.Equal(got, img.manifest) {
		return fmt.Errorf("acknowledged %s (%s): %s %s", tag, harness.DigestOf(img.manifest), resp.Status, programtest.Tail(string(got)))
	}
	for d := range img.manifests {
		resp, got, err := w.do("GET", "/v2/"+w.repo+"/manifests/"+d, "", nil)
		if err != nil {
			return err
		}
		if resp.StatusCode != 200 || harness.DigestOf(got) != d {
			return fmt.Errorf("child %s of acknowledged %s: %s", d, tag, resp.Status)
		}
	}
	for _, d := range img.blobs {
		resp, got, err := w.do("GET", "/v2/"+w.repo+"/blobs/"+d, "", nil)
		if err != nil {
			return err
		}
		if resp.StatusCode != 200 || harness.DigestOf(got) != d {
			return fmt.Errorf("blob %s of acknowledged %s: %s", d, tag, resp.Status)
		}
	}
	w.l.pulls.Add(1)
	return nil
}

// verify checks all that was acknowledged; tags in doubt are whole or absent.
func (w *gcWriter) verify() {
	w.l.addrs = w.l.addrs[:1]
	for tag, img := range w.tags {
		if err := w.check(tag, img); err != nil {
			w.l.t.Errorf("%s: %v", w.repo, err)
		}
	}
	for tag := range w.unsure {
		resp, got, err := w.do("GET", "/v2/"+w.repo+"/manifests/"+tag, "", nil)
		if err != nil {
			w.l.t.Error(err)
		} else if resp.StatusCode == 200 {
			w.wholeManifest(got)
		}
	}
}

func (w *gcWriter) wholeManifest(manifest []byte) {
	var m struct {
		Config    harness.Descriptor
		Layers    []harness.Descriptor
		Manifests []harness.Descriptor
	}
	if err := json.Unmarshal(manifest, &m); err != nil {
		w.l.t.Error(err)
	}
	for _, child := range m.Manifests {
		resp, got, err := w.do("GET", "/v2/"+w.repo+"/manifests/"+child.Digest, "", nil)
		if err != nil || resp.StatusCode != 200 {
			w.l.t.Errorf("%s: child %s of a visible index: %v", w.repo, child.Digest, err)
			continue
		}
		w.wholeManifest(got)
	}
	for _, d := range append(m.Layers, m.Config) {
		if d.Digest == "" {
			continue
		}
		resp, got, err := w.do("GET", "/v2/"+w.repo+"/blobs/"+d.Digest, "", nil)
		if err != nil || resp.StatusCode != 200 || harness.DigestOf(got) != d.Digest {
			w.l.t.Errorf("%s: blob %s of a visible manifest: %v", w.repo, d.Digest, err)
		}
	}
}
