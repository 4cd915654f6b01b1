package replication

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway/registry/internal/oci"
)

// A connection fails once nothing has moved on it for a while, in either direction, and not while an upload takes long.
func TestConn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		go io.Copy(io.Discard, far) //nolint:errcheck // it ends with the connection
		c, start := conn{near}, time.Now()
		failed := make(chan error)
		go func() {
			_, err := c.Read(make([]byte, 1)) // as the transport waits for the answer
			failed <- err
		}()
		const writes = 10
		for range writes {
			time.Sleep(stall - time.Second)
			if _, err := c.Write([]byte("part of a blob")); err != nil {
				t.Fatal(err)
			}
		}
		if err := <-failed; !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != writes*(stall-time.Second)+stall {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		far.Close()
	})
}

// A blob that can't be read here is not an error of the target.
func TestPutBlob_Broken(t *testing.T) {
	p := newPair(t, nil)
	broken := errors.New("input/output error")
	to := newRepository(p.t, newClient(p.t, "test"), &sync.Map{}, "app")
	if _, err := to.PutBlob(t.Context(), oci.SHA256.FromBytes([]byte("layer")), 5, io.MultiReader(strings.NewReader("la"), &failing{broken})); !errors.Is(err, broken) {
		t.Error(err)
	}
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }
