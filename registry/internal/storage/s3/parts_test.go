package s3_test

import (
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/registry/internal/storage/object"
)

// Uploads that nobody finished are found on all pages of the listing and aborted; young ones, and
// those of others in the bucket, are left.
func TestAbortOld_OfAllPages(t *testing.T) {
	const all, page = 2500, 1000
	var mu sync.Mutex
	aborted := map[string]bool{}
	key := func(i int) string {
		if i%5 == 4 {
			return fmt.Sprintf("foreign/%04d", i)
		}
		return fmt.Sprintf("root/tree/%04d", i)
	}
	begun := func(i int) time.Time {
		if i%5 == 3 {
			return time.Now().Add(-time.Hour)
		}
		return time.Now().Add(-30 * time.Hour)
	}
	b := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if r.Method == http.MethodDelete {
			mu.Lock()
			defer mu.Unlock()
			aborted[strings.TrimPrefix(r.URL.Path, "/b/")+" "+q.Get("uploadId")] = true
			w.WriteHeader(http.StatusNoContent)
			return
		}
		first := 0
		if marker := q.Get("upload-id-marker"); marker != "" {
			if _, err := fmt.Sscan(marker, &first); err != nil || q.Get("key-marker") != key(first) {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			first++
		}
		last := min(first+page, all)
		fmt.Fprintf(w, "<ListMultipartUploadsResult><IsTruncated>%v</IsTruncated>", last < all)
		if last < all {
			fmt.Fprintf(w, "<NextKeyMarker>%s</NextKeyMarker><NextUploadIdMarker>%d</NextUploadIdMarker>", key(last-1), last-1)
		}
		for i := first; i < last; i++ {
			fmt.Fprintf(w, "<Upload><Key>%s</Key><UploadId>%d</UploadId><Initiated>%s</Initiated></Upload>", key(i), i, begun(i).UTC().Format(time.RFC3339))
		}
		_, _ = io.WriteString(w, "</ListMultipartUploadsResult>")
	})
	if err := b.AbortOld(t.Context(), "root/", time.Now().Add(-24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	for i := range all {
		if want := i%5 < 3; aborted[fmt.Sprint(key(i), " ", i)] != want {
			t.Fatalf("upload %d of %s was aborted: %v, want %v", i, key(i), !want, want)
		}
	}
	if len(aborted) != all/5*3 {
		t.Errorf("%d uploads were aborted, want %d", len(aborted), all/5*3)
	}
}

// An object of thousands of parts is completed with all of them in their order.
func TestCompose_ThousandsOfParts(t *testing.T) {
	const parts = 3000
	var completed []string
	b := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		switch {
		case q.Has("uploads"):
			_, _ = io.WriteString(w, "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>")
		case r.Method == http.MethodPut:
			fmt.Fprintf(w, `<CopyPartResult><ETag>"%s of %s"</ETag></CopyPartResult>`, q.Get("partNumber"), r.Header.Get("X-Amz-Copy-Source"))
		default:
			var all struct {
				Part []struct{ PartNumber, ETag string }
			}
			if err := xml.NewDecoder(r.Body).Decode(&all); err != nil {
				t.Error(err)
			}
			for _, p := range all.Part {
				completed = append(completed, p.PartNumber+": "+p.ETag)
			}
			_, _ = io.WriteString(w, `<CompleteMultipartUploadResult><ETag>"whole"</ETag></CompleteMultipartUploadResult>`)
		}
	})
	var sources []object.Source
	var want []string
	for i := range parts {
		sources = append(sources, object.Source{Key: fmt.Sprint("part/", i), Size: 5 << 20})
		want = append(want, fmt.Sprintf(`%d: "%d of b/part/%d"`, i+1, i+1, i))
	}
	if version, err := b.Compose(t.Context(), "whole", sources, object.PutOptions{}); err != nil || version != "whole" {
		t.Fatalf("%q, %v", version, err)
	}
	if !slices.Equal(completed, want) {
		t.Errorf("%d parts were completed, want %d in order", len(completed), parts)
	}
}
