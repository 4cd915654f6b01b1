package s3_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/s3"
)

// amazon is a bucket and what gives credentials for it: the metadata of a machine and of a task, and
// the service that changes a web identity into a role.
type amazon struct {
	*httptest.Server
	given   atomic.Int32           // how many keys the machine's metadata has given
	expired atomic.Pointer[string] // a key that the bucket refuses
	sts     atomic.Pointer[string] // the token that was shown to the service
}

func newAmazon(t *testing.T) *amazon {
	t.Helper()
	a := &amazon{}
	later := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	keys := func(name string) string {
		return fmt.Sprintf(`{"Code": "Success", "Type": "AWS-HMAC", "AccessKeyId": %q, "SecretAccessKey": "s", "Token": "of-%s", "Expiration": %q}`, name, name, later)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /latest/api/token", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "600")
		_, _ = io.WriteString(w, "session")
	})
	mux.HandleFunc("GET /latest/meta-data/iam/security-credentials/{role...}", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("X-Aws-Ec2-Metadata-Token") != "session":
			w.WriteHeader(http.StatusUnauthorized)
		case r.PathValue("role") == "":
			_, _ = io.WriteString(w, "node")
		default:
			_, _ = io.WriteString(w, keys(fmt.Sprint("machine", a.given.Add(1))))
		}
	})
	mux.HandleFunc("GET /task", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, keys("task")) })
	mux.HandleFunc("POST /{$}", func(w http.ResponseWriter, r *http.Request) {
		token := r.FormValue("WebIdentityToken")
		a.sts.Store(&token)
		if r.FormValue("Action") != "AssumeRoleWithWebIdentity" || r.FormValue("RoleArn") != "arn:aws:iam::1:role/registry" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		fmt.Fprintf(w, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials>
			<AccessKeyId>pod</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>of-pod</SessionToken><Expiration>%s</Expiration>
			</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`, later)
	})
	bucket := func(w http.ResponseWriter, r *http.Request) {
		_, scope, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
		key, _, _ := strings.Cut(scope, "/")
		if bad := a.expired.Load(); bad != nil && *bad == key {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, "<Error><Code>ExpiredToken</Code></Error>")
			return
		}
		w.Header().Set("X-Key", key+" "+r.Header.Get("X-Amz-Security-Token"))
		fmt.Fprintf(w, "<ListBucketResult><Contents><Key>%s/%s</Key></Contents></ListBucketResult>", key, r.Header.Get("X-Amz-Security-Token"))
	}
	mux.HandleFunc("GET /bucket", bucket)
	mux.HandleFunc("GET /bucket/", bucket)
	a.Server = httptest.NewServer(mux)
	t.Cleanup(a.Close)
	return a
}

// alone takes away what the machine of the test offers.
func alone(t *testing.T) {
	t.Helper()
	for _, name := range []string{
		"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE",
		"AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CA_BUNDLE",
	} {
		t.Setenv(name, "")
	}
	nothing := filepath.Join(t.TempDir(), "nothing")
	t.Setenv("AWS_CONFIG_FILE", nothing)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", nothing)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}

// Without keys in the configuration, the registry has those that Amazon's tools would have, in their order.
func TestCredentialsChain(t *testing.T) {
	a := newAmazon(t)
	file := func(t *testing.T, content string) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	machine := func(t *testing.T) {
		t.Setenv("AWS_EC2_METADATA_DISABLED", "false")
		t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", a.URL)
	}
	for name, tt := range map[string]struct {
		offer func(*testing.T)
		want  string // key and session token
	}{
		"environment": {func(t *testing.T) {
			machine(t)
			t.Setenv("AWS_ACCESS_KEY_ID", "environment")
			t.Setenv("AWS_SECRET_ACCESS_KEY", "s")
			t.Setenv("AWS_SESSION_TOKEN", "of-environment")
		}, "environment/of-environment"},
		"profile": {func(t *testing.T) {
			machine(t)
			t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file(t, "[default]\naws_access_key_id = default\naws_secret_access_key = s\n[images]\naws_access_key_id = profile\naws_secret_access_key = s\n"))
			t.Setenv("AWS_PROFILE", "images")
		}, "profile/"},
		"machine": {machine, "machine1/of-machine1"},
		"task": {func(t *testing.T) {
			machine(t)
			t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", a.URL+"/task")
		}, "task/of-task"},
		// Not the machine's role, of which distribution is accused.
		"service account": {func(t *testing.T) {
			machine(t)
			t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", file(t, "token of the pod"))
			t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/registry")
			t.Setenv("AWS_ENDPOINT_URL_STS", a.URL)
		}, "pod/of-pod"},
	} {
		t.Run(name, func(t *testing.T) {
			alone(t)
			a.given.Store(0)
			tt.offer(t)
			b, err := s3.Open(t.Context(), s3.Config{Region: "eu-central-1", Endpoint: a.URL, Bucket: "bucket", PathStyle: true})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			page, err := b.List(t.Context(), "", object.ListOptions{})
			if err != nil || len(page.Entries) != 1 || page.Entries[0].Key != tt.want {
				t.Errorf("signed with %+v, %v; want %s", page.Entries, err, tt.want)
			}
			if token := a.sts.Load(); name == "service account" && (token == nil || *token != "token of the pod") {
				t.Errorf("the token %v was shown", token)
			}
		})
	}
	t.Run("nothing", func(t *testing.T) {
		alone(t)
		_, err := s3.Open(t.Context(), s3.Config{Region: "eu-central-1", Endpoint: a.URL, Bucket: "bucket", PathStyle: true})
		if err == nil || !strings.HasPrefix(err.Error(), "storage.s3: no credentials: set storage.s3.accesskey and storage.s3.secretkey") {
			t.Errorf("got %v", err)
		}
	})
}

// Keys that the store calls expired are fetched again.
func TestCredentials_ExpiredAreFetchedAgain(t *testing.T) {
	a := newAmazon(t)
	alone(t)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "false")
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", a.URL)
	b, err := s3.Open(t.Context(), s3.Config{Region: "eu-central-1", Endpoint: a.URL, Bucket: "bucket", PathStyle: true})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	old := "machine1"
	a.expired.Store(&old)
	client := object.NewClient(b, "", b.Limits(), object.Timing{Pause: time.Millisecond})
	for info, err := range client.List(t.Context(), "", object.ListOptions{}) {
		if err != nil || info.Key != "machine2/of-machine2" {
			t.Errorf("signed with %q, %v", info.Key, err)
		}
	}
	if n := a.given.Load(); n != 2 {
		t.Errorf("keys were given %d times, want 2", n)
	}
}
