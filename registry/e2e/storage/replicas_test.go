package storage

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"

	"slipway/registry/e2e/harness"
	"slipway/registry/internal/storage/s3/s3test"
)

// Of two replicas that tag at the same moment one wins, and both manifests are stored; of an
// immutable tag the first one stays.
func TestS3_ReplicasTagAtTheSameMoment(t *testing.T) { replicasTag(t, s3test.VersityGW) }

func replicasTag(t *testing.T, start s3test.Start) {
	server, _ := harness.S3Bucket(t, start)
	immutable := "REGISTRY_STORAGE_MAINTENANCE_IMMUTABLE=[{repositories: ['**'], tags: ['v\\d+']}]"
	addrs := []string{harness.StartOnS3(t, server.URL(), immutable).Addr, harness.StartOnS3(t, server.URL(), immutable).Addr}
	images := []*harness.Image{harness.NewImage(t, 81, 1, 1000), harness.NewImage(t, 82, 1, 1000)}
	for i, img := range images {
		img.Push(t, addrs[i], "race", "first"+strconv.Itoa(i))
	}
	for round := range 10 {
		for _, kind := range []string{"moving", "v"} {
			tag := fmt.Sprint(kind, round)
			status := make([]int, 2)
			var both sync.WaitGroup
			for i, img := range images {
				both.Go(func() {
					resp, _ := harness.Fetch(t, "PUT", "http://"+addrs[i]+"/v2/race/manifests/"+tag, http.Header{"Content-Type": {img.MediaType(t)}}, bytes.NewReader(img.Blobs[img.Manifest]))
					status[i] = resp.StatusCode
				})
			}
			both.Wait()
			_, got := harness.Fetch(t, "GET", "http://"+addrs[0]+"/v2/race/manifests/"+tag, harness.AcceptAll, nil)
			_, same := harness.Fetch(t, "GET", "http://"+addrs[1]+"/v2/race/manifests/"+tag, harness.AcceptAll, nil)
			winner := harness.DigestOf(got)
			if !bytes.Equal(got, same) || winner != images[0].Manifest && winner != images[1].Manifest {
				t.Fatalf("%s: the replicas answer %q and %q", tag, got, same)
			}
			for i, img := range images {
				want := 201
				if kind == "v" && img.Manifest != winner {
					want = 409
				}
				if status[i] != want {
					t.Errorf("%s: replica %d answered %d, want %d; the tag is %s", tag, i, status[i], want, winner)
				}
				if resp, _ := harness.Fetch(t, "GET", "http://"+addrs[1-i]+"/v2/race/manifests/"+img.Manifest, harness.AcceptAll, nil); resp.StatusCode != 200 {
					t.Errorf("%s: manifest %d: %s", tag, i, resp.Status)
				}
			}
		}
	}
}
