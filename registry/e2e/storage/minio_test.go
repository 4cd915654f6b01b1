package storage

import (
	"testing"

	"slipway/registry/e2e/harness"
	"slipway/registry/internal/storage/s3/s3test"
)

// TestFull_MinIO repeats on MinIO what the other tests do on versitygw.
func TestFull_MinIO(t *testing.T) {
	for name, test := range map[string]func(*testing.T, s3test.Start){
		"redirect":                    redirect,
		"move from disk to bucket":    move,
		"upload survives its replica": uploadSurvives,
		"bucket away":                 bucketAway,
		"collection without servers":  collectWithoutServers,
		"requests per operation":      requestsPerOperation,
		"exchange with distribution": func(t *testing.T, start s3test.Start) {
			exchange(t, start, harness.Distribution2, harness.Distribution3)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s3test.MinIO)
		})
	}
}
