package config

import (
	"encoding/json"

	"slipway/shared/config"
)

// GCS is a bucket of Google Cloud Storage.
type GCS struct {
	Bucket         string                   `key:"bucket" doc:"Existing bucket. Required."`
	KeyFile        string                   `key:"keyfile" doc:"Service account or workload identity federation file. Default: GOOGLE_APPLICATION_CREDENTIALS, gcloud, or the machine's service account."`
	Credentials    map[string]config.Secret `key:"credentials" doc:"Content of keyfile, as a section."`
	RootDirectory  string                   `key:"rootdirectory" doc:"Prefix of all names."`
	UserAgent      string                   `key:"useragent" doc:"User-Agent of requests."`
	ChunkSize      config.Dead              `key:"chunksize" why:"uploads are spooled, or stored in parts of slipway.objectstore"`
	MaxConcurrency config.Dead              `key:"maxconcurrency" why:"requests do not wait for each other"`
}

// CredentialsJSON is the section as a file, nil if there is none.
func (g *GCS) CredentialsJSON() []byte {
	if len(g.Credentials) == 0 {
		return nil
	}
	plain := map[string]string{}
	for name, value := range g.Credentials {
		plain[name] = value.Reveal()
	}
	content, err := json.Marshal(plain)
	if err != nil {
		return nil
	}
	return content
}

func (g *GCS) validate(p *config.Problems) {
	required(p, "storage.gcs.bucket", g.Bucket)
	if g.KeyFile != "" && len(g.Credentials) > 0 {
		p.Addf("storage.gcs.keyfile", "is given beside credentials; keep one")
	}
	rootDirectory(p, "storage.gcs.rootdirectory", g.RootDirectory)
}
