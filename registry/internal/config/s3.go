package config

import (
	"net/url"
	"strings"

	"slipway/shared/config"
)

// S3 is a bucket of Amazon S3 or of a server that speaks its protocol.
type S3 struct {
	AccessKey        config.Secret `key:"accesskey" doc:"Default: AWS_ACCESS_KEY_ID, a profile, or the role of the machine, task or service account."`
	SecretKey        config.Secret `key:"secretkey" doc:"Secret key."`
	SessionToken     config.Secret `key:"sessiontoken" doc:"Session token of temporary keys."`
	Region           string        `key:"region" doc:"Region of the bucket. Required for Amazon."`
	RegionEndpoint   string        `key:"regionendpoint" doc:"Host or URL of a server other than Amazon's."`
	ForcePathStyle   string        `key:"forcepathstyle" choices:"auto,true,false" doc:"Put the bucket in the path; auto: with regionendpoint."`
	Bucket           string        `key:"bucket" doc:"Existing bucket. Required."`
	RootDirectory    string        `key:"rootdirectory" doc:"Prefix of all names."`
	Secure           bool          `key:"secure" doc:"Use https if regionendpoint has no scheme."`
	SkipVerify       bool          `key:"skipverify" doc:"Accept any certificate. Insecure."`
	CAFile           string        `key:"cafile" doc:"Additional certificate authorities. Default: AWS_CA_BUNDLE."`
	UseDualStack     bool          `key:"usedualstack" doc:"Use Amazon's IPv6 endpoints, too."`
	Accelerate       bool          `key:"accelerate" doc:"Use Amazon's transfer acceleration."`
	UseFIPSEndpoint  bool          `key:"usefipsendpoint" doc:"Use Amazon's FIPS endpoints."`
	Encrypt          bool          `key:"encrypt" doc:"Encrypt objects at the server, with keyid if set."`
	KeyID            string        `key:"keyid" doc:"KMS key for encrypt."`
	StorageClass     string        `key:"storageclass" choices:"NONE,STANDARD,REDUCED_REDUNDANCY,STANDARD_IA,ONEZONE_IA,INTELLIGENT_TIERING,OUTPOSTS,GLACIER_IR,EXPRESS_ONEZONE" doc:"NONE leaves it to the bucket."`
	ObjectACL        string        `key:"objectacl" choices:"private,public-read,public-read-write,authenticated-read,aws-exec-read,bucket-owner-read,bucket-owner-full-control" doc:"Canned ACL; private sends none."`
	UserAgent        string        `key:"useragent" doc:"User-Agent of requests."`
	RedirectEndpoint string        `key:"redirectendpoint" doc:"Scheme and host for clients, if different from regionendpoint."`

	V4Auth                      bool        `key:"v4auth" doc:"Sign with version 4; there is no other."`
	ChunkSize                   config.Dead `key:"chunksize" why:"uploads are spooled, or stored in parts of slipway.objectstore.spoolmax"`
	MultipartCopyChunkSize      config.Dead `key:"multipartcopychunksize" why:"parts are copied as they were stored"`
	MultipartCopyMaxConcurrency config.Dead `key:"multipartcopymaxconcurrency" why:"sixteen parts are copied at the same time"`
	MultipartCopyThresholdSize  config.Dead `key:"multipartcopythresholdsize" why:"an upload that was stored at once is never copied"`
	LogLevel                    config.Dead `key:"loglevel" why:"requests that fail are logged with their cause; log.level debug logs each operation"`
}

func defaultS3() *S3 {
	return &S3{Secure: true, V4Auth: true, ForcePathStyle: "auto", StorageClass: "STANDARD", ObjectACL: "private"}
}

// PathStyle reports whether the bucket is in the path.
func (s *S3) PathStyle() bool {
	switch s.ForcePathStyle {
	case "true":
		return true
	case "false":
		return false
	}
	return s.RegionEndpoint != "" || strings.Contains(s.Bucket, ".") // no certificate fits a bucket with dots
}

func (s *S3) validate(p *config.Problems) {
	required(p, "storage.s3.bucket", s.Bucket)
	if s.Region == "" && s.RegionEndpoint == "" {
		p.Addf("storage.s3.region", "is missing")
	}
	if s.AccessKey.Empty() != s.SecretKey.Empty() {
		p.Addf("storage.s3.secretkey", "and accesskey belong together: give both or none")
	}
	if s.KeyID != "" && !s.Encrypt {
		p.Addf("storage.s3.keyid", "has no effect without encrypt: true")
	}
	if !s.V4Auth {
		p.Addf("storage.s3.v4auth", "must be true: signature version 2 is not supported")
	}
	if s.RedirectEndpoint != "" {
		u, err := url.Parse(s.RedirectEndpoint)
		if err != nil || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
			p.Addf("storage.s3.redirectendpoint", "%q is no scheme and host, such as https://images.example.com", s.RedirectEndpoint)
		}
	}
	rootDirectory(p, "storage.s3.rootdirectory", s.RootDirectory)
}
